#include "op_by_op.h"

#include <cstdio>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "tensorflow/core/common_runtime/function.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace gpuconf {
namespace {

void TellOnce() {
  static std::once_flag told;
  std::call_once(told, [] {
    std::fprintf(stderr,
                 "gpuconf: the simulated card has no XLA: functions with jit_compile run op by op, "
                 "and may need more memory than on a real GPU\n");
  });
}

class OpByOp : public tensorflow::CustomKernelCreator {
 public:
  bool CanCreateKernel(
      const tensorflow::FunctionLibraryRuntime&,
      const std::shared_ptr<const tensorflow::NodeProperties>& properties) const override {
    const auto& attributes = properties->node_def.attr();
    const auto must_compile = attributes.find("_XlaMustCompile");
    if (must_compile != attributes.end() && must_compile->second.b()) TellOnce();
    return false;  // and TensorFlow goes on with its own executor
  }

  absl::Status CreateKernel(tensorflow::FunctionLibraryRuntime*,
                            const std::shared_ptr<const tensorflow::NodeProperties>&,
                            std::unique_ptr<tensorflow::OpKernel>*) const override {
    return absl::InternalError("gpuconf: not reached, no kernel was promised");
  }
};

}  // namespace

void RunJitFunctionsOpByOp() {
  tensorflow::RegisterDefaultCustomKernelCreator(new OpByOp);  // which takes it over
}

}  // namespace gpuconf
