// An operation has a twin where TensorFlow has a GPU kernel and a CPU kernel for it whose type
// constraints meet.  What has no GPU kernel stays off the GPU, as on a real card.  What has a GPU
// kernel alone is refused by name when it is made; and should any CUDA code be launched all the
// same, the stand-in driver stops the program.
#include "replacements.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace gpuconf {
namespace {

using ::tensorflow::AttrValue;
using ::tensorflow::KernelDef;
using Constraints = std::map<std::string, AttrValue>;
using Registered = std::map<std::pair<std::string, std::string>, std::vector<KernelDef>>;

constexpr char kGpu[] = "GPU";
constexpr char kCpu[] = "CPU";
constexpr char kDefault[] = "DEFAULT";
constexpr char kCompiling[] = "XlaCompileOnDemandOp";

// Kernels that move data between devices, or are not computations on tensors of one device.
bool IsPlumbing(absl::string_view op) {
  for (absl::string_view start : {"_Fused", "_ParallelConcat", "_TensorToHash"}) {
    if (absl::StartsWith(op, start)) return false;
  }
  if (absl::StartsWith(op, "_") || op == "SyncDevice") return true;
  for (absl::string_view part : {"Nccl", "Collective", "Dataset", "Iterator"}) {
    if (absl::StrContains(op, part)) return true;
  }
  return false;
}

// The kernels registered for one type of device, by operation and label.
Registered RegisteredFor(const tensorflow::KernelList& all, absl::string_view device_type) {
  Registered found;
  for (const KernelDef& kernel : all.kernel()) {
    if (kernel.device_type() == device_type && !IsPlumbing(kernel.op())) {
      found[{kernel.op(), kernel.label()}].push_back(kernel);
    }
  }
  return found;
}

Constraints ConstraintsOf(const KernelDef& kernel) {
  Constraints found;
  for (const auto& constraint : kernel.constraint()) {
    found[constraint.name()] = constraint.allowed_values();
  }
  return found;
}

// Kernels are constrained to types ("T" is float or half) and to words (data_format is "NHWC").
int CountOf(const AttrValue& allowed) {
  return allowed.list().type_size() + allowed.list().s_size();
}

// What both lists of allowed values hold; empty where they do not meet.
AttrValue Common(const AttrValue& one, const AttrValue& other) {
  AttrValue common;
  for (int type : one.list().type()) {
    for (int also : other.list().type()) {
      if (type == also) common.mutable_list()->add_type(static_cast<tensorflow::DataType>(type));
    }
  }
  for (const auto& word : one.list().s()) {
    for (const auto& also : other.list().s()) {
      if (word == also) common.mutable_list()->add_s(word);
    }
  }
  return common;
}

// The constraints under which both kernels apply.  False where there are none.
bool Intersect(const Constraints& gpu, const Constraints& cpu, Constraints* both) {
  *both = gpu;
  for (const auto& [name, allowed] : cpu) {
    auto [place, is_new] = both->emplace(name, allowed);
    if (!is_new) place->second = Common(place->second, allowed);
  }
  for (const auto& [name, allowed] : *both) {
    if (CountOf(allowed) == 0) return false;
  }
  return true;
}

// What TensorFlow would make for an operation with the first of the allowed values.
struct Choice {
  std::string class_name;  // empty where it has nothing
  std::string device_type;
};

Choice ChoiceFor(const char* device_type, const KernelDef& kernel,
                 const Constraints& constraints) {
  tensorflow::AttrValueMap attributes;
  for (const auto& [name, allowed] : constraints) {
    const auto& values = allowed.list();
    if (values.type_size() > 0) {
      attributes[name].set_type(values.type(0));
    } else if (values.s_size() > 0) {
      attributes[name].set_s(values.s(0));
    }
  }
  if (!kernel.label().empty()) attributes["_kernel"].set_s(kernel.label());
  const KernelDef* found = nullptr;
  Choice choice;
  const absl::Status status = tensorflow::FindKernelDef(
      tensorflow::DeviceType(device_type), "twin", false,
      tensorflow::NodeDef_ExperimentalDebugInfo(), kernel.op(), "",
      tensorflow::AttrSlice(&attributes), &found, &choice.class_name);
  if (!status.ok()) return Choice();
  choice.device_type = found->device_type();
  return choice;
}

KernelDef RegistrationInPlaceOf(const KernelDef& original, int priority,
                                const Constraints& constraints) {
  KernelDef registration = original;
  registration.set_device_type(kGpu);
  registration.set_priority(original.priority() + priority);
  registration.clear_constraint();
  for (const auto& [name, allowed] : constraints) {
    auto* constraint = registration.add_constraint();
    constraint->set_name(name);
    *constraint->mutable_allowed_values() = allowed;
  }
  return registration;
}

// Adds the twins of one registration for GPU, or for any device ("DEFAULT"): then only where no
// GPU registration comes before it.
void AddTwinsOf(const KernelDef& original, const std::vector<KernelDef>& cpu_kernels,
                std::vector<Replacement>* replacements) {
  for (const KernelDef& cpu_kernel : cpu_kernels) {
    Constraints both;
    if (!Intersect(ConstraintsOf(original), ConstraintsOf(cpu_kernel), &both)) continue;
    const Choice gpu = ChoiceFor(kGpu, original, both);
    const Choice cpu = ChoiceFor(kCpu, original, both);
    if (gpu.device_type != original.device_type() || cpu.device_type != kCpu) continue;
    // The CPU's own class launches nothing, but for the one that compiles for its device.
    if (gpu.class_name == cpu.class_name && gpu.class_name != kCompiling) continue;
    replacements->push_back({RegistrationInPlaceOf(original, kTwin, both),
                             absl::StrCat(cpu.class_name, " [simulated]"), true});
  }
}

// Adds the refusal of one registration for GPU; the twins stand above it.
void AddRefusalOf(const KernelDef& original, std::vector<Replacement>* replacements) {
  const Constraints constraints = ConstraintsOf(original);
  const Choice gpu = ChoiceFor(kGpu, original, constraints);
  const Choice cpu = ChoiceFor(kCpu, original, constraints);
  if (gpu.class_name == cpu.class_name) return;
  replacements->push_back({RegistrationInPlaceOf(original, kRefusal, constraints),
                           absl::StrCat(gpu.class_name, " [refused]"), false});
}

}  // namespace

std::vector<Replacement> FindReplacements() {
  const tensorflow::KernelList all = tensorflow::GetAllRegisteredKernels();
  const Registered cpu = RegisteredFor(all, kCpu);
  std::vector<Replacement> replacements;
  for (const char* device_type : {kGpu, kDefault}) {
    for (const auto& [operation, originals] : RegisteredFor(all, device_type)) {
      const auto cpu_kernels = cpu.find(operation);
      for (const KernelDef& original : originals) {
        if (cpu_kernels != cpu.end()) AddTwinsOf(original, cpu_kernels->second, &replacements);
        if (original.device_type() == kGpu) AddRefusalOf(original, &replacements);
      }
    }
  }
  return replacements;
}

}  // namespace gpuconf
