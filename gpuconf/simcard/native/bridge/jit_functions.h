// Functions with jit_compile=True: XLA's memory and the CPU's numbers, or op by op.
#ifndef GPUCONF_BRIDGE_JIT_FUNCTIONS_H_
#define GPUCONF_BRIDGE_JIT_FUNCTIONS_H_

namespace gpuconf {

// Takes the place of what hands such functions to XLA.  Where XLA can compile for the simulated
// card (gpuconf/simcard/xla.py), it does, for its memory (xla_step.h); elsewhere they run op by
// op, and the first one is reported on stderr.
void TakeJitFunctions();

}  // namespace gpuconf

#endif
