// CPU kernels that TensorFlow runs as GPU kernels.
#ifndef GPUCONF_BRIDGE_HOST_KERNEL_H_
#define GPUCONF_BRIDGE_HOST_KERNEL_H_

#include <type_traits>

#include "tensorflow/core/framework/op_kernel.h"

namespace gpuconf {

// Makes a GPU kernel that has the CPU kernel for the operation under construction do its work.
// Device memory on a simulated GPU is host memory, so it computes there, and what it allocates
// comes from the GPU's allocator.  Returns null with the status set in `construction` where there
// can be none.
tensorflow::OpKernel* MakeHostKernel(tensorflow::OpKernelConstruction* construction);

// For registrations of kernels of our own.
template <typename Kernel>
tensorflow::OpKernel* Make(tensorflow::OpKernelConstruction* construction) {
  return new Kernel(construction);
}

// What our own kernels compute in: the half types would lose too much in sums.
template <typename T>
using Computing = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace gpuconf

#endif
