/* cuDNN's older API, as TensorFlow's own GPU kernels call it for pooling, normalization, dropout and the
 * CTC loss: descriptors that hold nothing, no workspace, and layers that are left undone where kernels
 * are skipped and refused, by name, elsewhere. */
#include "cudnn_descriptors.h"

DESCRIPTOR(Pooling, char)
DESCRIPTOR(LRN, char)
DESCRIPTOR(Dropout, char)
DESCRIPTOR(CTCLoss, char)

REFUSE(cudnnSetPoolingNdDescriptor)
REFUSE(cudnnPoolingForward)
REFUSE(cudnnPoolingBackward)

REFUSE(cudnnSetLRNDescriptor)
REFUSE(cudnnLRNCrossChannelForward)
REFUSE(cudnnLRNCrossChannelBackward)

REFUSE(cudnnActivationForward)
REFUSE(cudnnTransformTensor)

REFUSE(cudnnBatchNormalizationForwardInference)
REFUSE(cudnnBatchNormalizationForwardTraining)
REFUSE(cudnnBatchNormalizationForwardTrainingEx)
REFUSE(cudnnBatchNormalizationBackward)
REFUSE(cudnnBatchNormalizationBackwardEx)

/* The callers have set these sizes to 0. */
REFUSE(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)
REFUSE(cudnnGetBatchNormalizationBackwardExWorkspaceSize)
REFUSE(cudnnGetBatchNormalizationTrainingExReserveSpaceSize)

REFUSE(cudnnGetCTCLossWorkspaceSize)
REFUSE(cudnnGetCTCLossWorkspaceSize_v8)

REFUSE(cudnnSetDropoutDescriptor)
REFUSE(cudnnSetCTCLossDescriptorEx)
REFUSE(cudnnSetCTCLossDescriptor_v8)
REFUSE(cudnnCTCLoss)
REFUSE(cudnnCTCLoss_v8)

/* About what cuDNN 9 takes for the states of its generator: 2,048 bytes for each of some hundred
 * multiprocessors. */
enum { STATES_BYTES = 256 << 10 };

EXPORT int cudnnDropoutGetStatesSize(void *handle, size_t *bytes)
{
    *bytes = STATES_BYTES;
    return 0;
}
