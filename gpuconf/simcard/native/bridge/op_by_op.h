// XLA has no GPU to compile for: functions with jit_compile=True run op by op.
#ifndef GPUCONF_BRIDGE_OP_BY_OP_H_
#define GPUCONF_BRIDGE_OP_BY_OP_H_

namespace gpuconf {

// Takes the place of what hands such functions to XLA.  The first one is told on stderr.
void RunJitFunctionsOpByOp();

}  // namespace gpuconf

#endif
