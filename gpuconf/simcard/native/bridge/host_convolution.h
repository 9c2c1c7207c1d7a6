// Convolutions with dilations or groups that TensorFlow's CPU kernels refuse and a GPU does not: in
// three dimensions all, in two the gradients.
#ifndef GPUCONF_BRIDGE_HOST_CONVOLUTION_H_
#define GPUCONF_BRIDGE_HOST_CONVOLUTION_H_

namespace gpuconf {

// Registers Conv3D and the gradients of Conv2D and Conv3D for GPU: TensorFlow's CPU kernel where it
// can, ours where it cannot.
void RegisterHostConvolutions();

}  // namespace gpuconf

#endif
