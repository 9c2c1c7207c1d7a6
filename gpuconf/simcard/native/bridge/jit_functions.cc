#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "registrations.h"
#include "tensorflow/compiler/jit/xla_kernel_creator.h"
#include "tensorflow/core/common_runtime/function.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "xla_step.h"

namespace gpuconf {
namespace {

using ::tensorflow::FunctionLibraryRuntime;
using ::tensorflow::NodeProperties;

constexpr char kXlaVariable[] = "GPUCONF_SIMCARD_XLA";

void SayOnce() {
  static std::once_flag said;
  std::call_once(said, [] {
    std::fprintf(stderr,
                 "gpuconf: functions with jit_compile run op by op on this simulated GPU, and may "
                 "need more memory than on a real GPU\n");
  });
}

// The same call as TensorFlow writes it into a graph.  Its kernel places each operation where it
// belongs and has its own rendezvous.  The eager runtime would run the function with a
// rendezvous of the whole process, which stays aborted after the first error: every later call
// would end in the same out-of-memory, however small.
tensorflow::NodeDef PartitionedCallOf(const NodeProperties& properties) {
  const tensorflow::NodeDef& node = properties.node_def;
  tensorflow::NodeDef call;
  call.set_name(node.name());
  call.set_op("StatefulPartitionedCall");
  call.set_device(node.device());
  for (int i = 0; i < node.input_size(); ++i) call.add_input(node.input(i));
  auto& attributes = *call.mutable_attr();
  auto* function = attributes["f"].mutable_func();
  function->set_name(node.op());
  for (const auto& [name, value] : node.attr()) {
    if (!absl::StartsWith(name, "_Xla")) (*function->mutable_attr())[name] = value;
  }
  for (const auto type : properties.input_types) {
    attributes["Tin"].mutable_list()->add_type(type);
  }
  for (const auto type : properties.output_types) {
    attributes["Tout"].mutable_list()->add_type(type);
  }
  for (const char* list : {"Tin", "Tout"}) attributes[list].mutable_list();  // also an empty one
  for (const char* text : {"config", "config_proto", "executor_type"}) attributes[text].set_s("");
  return call;
}

bool MustCompile(const NodeProperties& properties) {
  const auto& attributes = properties.node_def.attr();
  const auto found = attributes.find("_XlaMustCompile");
  return found != attributes.end() && found->second.b();
}

// In XLA's place for what must be compiled.
class JitFunctions : public tensorflow::CustomKernelCreator {
 public:
  explicit JitFunctions(bool has_xla) : has_xla_(has_xla) {}

  bool CanCreateKernel(const FunctionLibraryRuntime& library,
                       const std::shared_ptr<const NodeProperties>& properties) const override {
    if (!MustCompile(*properties)) return false;
    if (IsForXla(library)) return xla_.CanCreateKernel(library, properties);
    if (IsOnGpu(library)) SayOnce();
    // PartitionedCall has a kernel, and its own rendezvous.
    return library.GetFunctionLibraryDefinition()->Find(properties->node_def.op()) != nullptr;
  }

  absl::Status CreateKernel(FunctionLibraryRuntime* library,
                            const std::shared_ptr<const NodeProperties>& properties,
                            std::unique_ptr<tensorflow::OpKernel>* kernel) const override {
    if (!IsForXla(*library)) return CreateCall(library, *properties, kernel);
    std::unique_ptr<tensorflow::OpKernel> xla;
    const absl::Status status = xla_.CreateKernel(library, properties, &xla);
    if (!status.ok()) return status;
    return MakeXlaStep(library, properties, std::move(xla), kernel);
  }

 private:
  static bool IsOnGpu(const FunctionLibraryRuntime& library) {
    return library.device()->device_type() == tensorflow::DEVICE_GPU;
  }

  // What computes the numbers comes here too, on the CPU.
  bool IsForXla(const FunctionLibraryRuntime& library) const {
    return has_xla_ && IsOnGpu(library);
  }

  static absl::Status CreateCall(FunctionLibraryRuntime* library, const NodeProperties& properties,
                                 std::unique_ptr<tensorflow::OpKernel>* kernel) {
    std::shared_ptr<const NodeProperties> call;
    const absl::Status made = NodeProperties::CreateFromNodeDef(
        PartitionedCallOf(properties), tensorflow::OpRegistry::Global(), &call);
    if (!made.ok()) return made;
    tensorflow::OpKernel* created = nullptr;
    const absl::Status status = library->CreateKernel(call, &created);
    kernel->reset(created);
    return status;
  }

  const bool has_xla_;  // whether it can compile here
  const tensorflow::XlaKernelCreator xla_;  // what hands functions to XLA
};

}  // namespace

void TakeJitFunctions() {
  // Which takes it over.
  tensorflow::RegisterDefaultCustomKernelCreator(
      new JitFunctions(std::getenv(kXlaVariable) != nullptr));
}

}  // namespace gpuconf
