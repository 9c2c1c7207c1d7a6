// CPU kernels that TensorFlow runs as GPU kernels.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace gpuconf {

// Makes a GPU kernel that has the CPU kernel for the operation under construction do its work.
// Device memory on a simulated GPU is host memory, so it computes there, and what it allocates
// comes from the GPU's allocator.  Returns null with the status set in `construction` where there
// can be none.
tensorflow::OpKernel* MakeHostKernel(tensorflow::OpKernelConstruction* construction);

// A GPU kernel that has the kernel of `node` for `device_type` compute on the CPU device, with host
// memory for what that allocates.
class OnHostKernel : public tensorflow::OpKernel {
 public:
  OnHostKernel(tensorflow::OpKernelConstruction* construction, const tensorflow::NodeDef& node,
               absl::string_view device_type);

 protected:
  absl::Status ComputeOnHost(tensorflow::OpKernelContext* context,
                             const std::vector<tensorflow::Tensor>& inputs,
                             std::vector<tensorflow::Tensor>* outputs);

 private:
  tensorflow::Device* cpu_ = nullptr;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
};

// Copies results that are in host memory to the card.
void BringResultsToCard(tensorflow::OpKernelContext* context);

// For registrations of kernels of our own.
template <typename Kernel>
tensorflow::OpKernel* Make(tensorflow::OpKernelConstruction* construction) {
  return new Kernel(construction);
}

// What our own kernels compute in: the half types would lose too much in sums.
template <typename T>
using Computing = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace gpuconf
