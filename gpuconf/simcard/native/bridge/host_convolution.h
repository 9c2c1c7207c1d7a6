// The gradients of convolutions with dilations or groups: TensorFlow's CPU kernels refuse them, a
// GPU does not.
#ifndef GPUCONF_BRIDGE_HOST_CONVOLUTION_H_
#define GPUCONF_BRIDGE_HOST_CONVOLUTION_H_

namespace gpuconf {

// Registers Conv2DBackpropInput and Conv2DBackpropFilter for GPU: TensorFlow's CPU kernel where it
// can, ours where it cannot.
void RegisterHostConvolutionGradients();

}  // namespace gpuconf

#endif
