// A CPU kernel that TensorFlow treats as a GPU kernel.
#ifndef GPUCONF_BRIDGE_HOST_KERNEL_H_
#define GPUCONF_BRIDGE_HOST_KERNEL_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace gpuconf {

// Makes the CPU kernel for the operation under construction.  Device memory on a simulated card is
// host memory, so it computes there; what it allocates comes from the GPU's allocator.  Returns
// null with the status set in `construction` where that fails.
tensorflow::OpKernel* MakeHostKernel(tensorflow::OpKernelConstruction* construction);

// Gives a kernel what TensorFlow asks of it on a GPU: where its arguments live, and that the
// executor need not fear it takes long (else kernels run in another order, and the peak of memory
// is another).
void TreatAsGpuKernel(const tensorflow::OpKernelConstruction& construction,
                      tensorflow::OpKernel* kernel);

}  // namespace gpuconf

#endif
