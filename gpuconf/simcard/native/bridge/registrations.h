// Kernels of our own, each registered by the file that its comment describes.
#pragma once

namespace gpuconf {

// Images with their channels first (NCHW, NCDHW), for which TensorFlow has no CPU kernels: the same
// operation with its channels last does the work, in host memory, and only the results come from
// the GPU's allocator, as with cuDNN.  The CPU gets them too: a function that XLA has compiled for
// the card computes there (see xla_step.h).
void RegisterChannelsFirst();

// Convolutions with dilations or groups that TensorFlow's CPU kernels refuse and a GPU does not: in
// three dimensions all, in two the gradients.  TensorFlow's CPU kernel computes where it can.
void RegisterHostConvolutions();

// cuDNN's LSTM and GRU (CudnnRNN, CudnnRNNV2 and CudnnRNNV3 with their gradients): TensorFlow has no
// CPU kernels for them, and Keras asks for them on any GPU.
void RegisterHostRnn();

// Functions with jit_compile=True: takes the place of what hands them to XLA.  Where XLA can compile
// for the simulated card (gpuconf/simcard/xla.py), it does, for its memory (xla_step.h); elsewhere
// they run op by op, and the first one is reported on stderr.
void TakeJitFunctions();

}  // namespace gpuconf
