// Images with their channels first (NCHW, NCDHW), for which TensorFlow has no CPU kernels.
#ifndef GPUCONF_BRIDGE_CHANNELS_FIRST_H_
#define GPUCONF_BRIDGE_CHANNELS_FIRST_H_

namespace gpuconf {

// Registers kernels that have the same operation with its channels last do the work, in host
// memory: only the results come from the GPU's allocator, as with cuDNN.  The CPU gets them too: a
// function that XLA has compiled for the card computes there (see xla_step.h).
void RegisterChannelsFirst();

}  // namespace gpuconf

#endif
