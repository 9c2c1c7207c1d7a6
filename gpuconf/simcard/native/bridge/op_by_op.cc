#include "op_by_op.h"

#include <cstdio>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "tensorflow/core/common_runtime/function.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace gpuconf {
namespace {

using ::tensorflow::FunctionLibraryRuntime;
using ::tensorflow::NodeProperties;

void TellOnce() {
  static std::once_flag told;
  std::call_once(told, [] {
    std::fprintf(stderr,
                 "gpuconf: the simulated card has no XLA: functions with jit_compile run op by op, "
                 "and may need more memory than on a real GPU\n");
  });
}

// The same call as TensorFlow writes it into a graph.  Its kernel places each operation where it
// belongs and has a rendezvous of its own.  The eager runtime would run the function with a
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

// In XLA's place for what must be compiled, which is a call of a function by its name.
class OpByOp : public tensorflow::CustomKernelCreator {
 public:
  bool CanCreateKernel(const FunctionLibraryRuntime& library,
                       const std::shared_ptr<const NodeProperties>& properties) const override {
    const auto& attributes = properties->node_def.attr();
    const auto must_compile = attributes.find("_XlaMustCompile");
    if (must_compile == attributes.end() || !must_compile->second.b()) return false;
    TellOnce();
    // PartitionedCall has a kernel, and a rendezvous of its own.
    return library.GetFunctionLibraryDefinition()->Find(properties->node_def.op()) != nullptr;
  }

  absl::Status CreateKernel(FunctionLibraryRuntime* library,
                            const std::shared_ptr<const NodeProperties>& properties,
                            std::unique_ptr<tensorflow::OpKernel>* kernel) const override {
    std::shared_ptr<const NodeProperties> call;
    const absl::Status made = NodeProperties::CreateFromNodeDef(
        PartitionedCallOf(*properties), tensorflow::OpRegistry::Global(), &call);
    if (!made.ok()) return made;
    tensorflow::OpKernel* created = nullptr;
    const absl::Status status = library->CreateKernel(call, &created);
    kernel->reset(created);
    return status;
  }
};

}  // namespace

void RunJitFunctionsOpByOp() {
  tensorflow::RegisterDefaultCustomKernelCreator(new OpByOp);  // which takes it over
}

}  // namespace gpuconf
