// cuDNN's LSTM and GRU, computed by the host: TensorFlow has no CPU kernels for them, and Keras
// asks for them on any GPU.
#ifndef GPUCONF_BRIDGE_HOST_RNN_H_
#define GPUCONF_BRIDGE_HOST_RNN_H_

namespace gpuconf {

// Registers CudnnRNN, CudnnRNNV2 and CudnnRNNV3 with their gradients for GPU.
void RegisterHostRnn();

}  // namespace gpuconf

#endif
