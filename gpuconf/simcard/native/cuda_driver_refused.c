/* libcuda.so.1: what JAX and PyTorch may ask for and a simulated GPU does not have.  Each function
 * says its name when first called and returns CUDA_NOT_SUPPORTED. */
#include "refusals.h"

/* Memory that the driver pools (cudaMallocAsync, JAX's cuda_async allocator). */
REFUSE(cuMemAllocAsync)
REFUSE(cuMemAllocFromPoolAsync)
REFUSE(cuMemFreeAsync)
REFUSE(cuMemPoolCreate)
REFUSE(cuMemPoolDestroy)
REFUSE(cuMemPoolGetAttribute)
REFUSE(cuMemPoolSetAccess)
REFUSE(cuMemPoolSetAttribute)
REFUSE(cuMemPoolTrimTo)
REFUSE(cuDeviceGetDefaultMemPool)
REFUSE(cuDeviceGetMemPool)
REFUSE(cuDeviceSetMemPool)

/* Memory shared with other processes and other GPUs. */
REFUSE(cuIpcCloseMemHandle)
REFUSE(cuIpcGetEventHandle)
REFUSE(cuIpcGetMemHandle)
REFUSE(cuIpcOpenEventHandle)
REFUSE(cuIpcOpenMemHandle_v2)
REFUSE(cuMemExportToShareableHandle)
REFUSE(cuMemImportFromShareableHandle)
REFUSE(cuMulticastAddDevice)
REFUSE(cuMulticastBindAddr)
REFUSE(cuMulticastBindMem)
REFUSE(cuMulticastCreate)
REFUSE(cuMulticastGetGranularity)
REFUSE(cuMulticastUnbind)

/* CUDA graphs: JAX's command buffers, torch.cuda.graph. */
REFUSE(cuGraphAddKernelNode_v2)
REFUSE(cuGraphAddMemcpyNode)
REFUSE(cuGraphAddMemsetNode)
REFUSE(cuGraphAddNode)
REFUSE(cuGraphCreate)
REFUSE(cuGraphDestroy)
REFUSE(cuGraphExecDestroy)
REFUSE(cuGraphExecUpdate_v2)
REFUSE(cuGraphInstantiateWithFlags)
REFUSE(cuGraphInstantiate_v2)
REFUSE(cuGraphLaunch)
REFUSE(cuStreamBeginCaptureToGraph)
REFUSE(cuStreamBeginCapture_v2)
REFUSE(cuStreamEndCapture)

/* Parts of a GPU. */
REFUSE(cuCtxFromGreenCtx)
REFUSE(cuDevResourceGenerateDesc)
REFUSE(cuDevSmResourceSplitByCount)
REFUSE(cuDeviceGetDevResource)
REFUSE(cuGreenCtxCreate)
REFUSE(cuGreenCtxDestroy)
REFUSE(cuGreenCtxStreamCreate)

/* Code for kernels. */
REFUSE(cuLinkAddData_v2)
REFUSE(cuLinkComplete)
REFUSE(cuLinkCreate_v2)
REFUSE(cuModuleLoad)
REFUSE(cuTensorMapEncodeTiled)
