#pragma once

#include <memory>

#include "tensorflow/core/common_runtime/function.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace gpuconf {

// A kernel for a function that must be compiled, on a GPU: `xla` is the one that TensorFlow's XLA
// made for it.  XLA compiles for real and takes the memory that it would on a GPU, at the moments
// at which it would; its launches are skipped.  The numbers are computed by TensorFlow's CPU in
// host memory, of which the card knows nothing, and put into the results and variables.
absl::Status MakeXlaStep(tensorflow::FunctionLibraryRuntime* library,
                         const std::shared_ptr<const tensorflow::NodeProperties>& properties,
                         std::unique_ptr<tensorflow::OpKernel> xla,
                         std::unique_ptr<tensorflow::OpKernel>* made);

}  // namespace gpuconf
