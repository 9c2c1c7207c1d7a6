/* cuDNN's older API, as the XLA of TensorFlow 2.15 to 2.19 calls it for a convolution whose algorithm
 * was not timed: descriptors that hold next to nothing, no workspace, and convolutions that are left
 * undone where kernels are skipped and refused, by name, elsewhere. */
#include "cudnn_descriptors.h"

struct descriptor {
    int math_type; /* of a convolution: XLA compares what it has set with what it wanted */
};

DESCRIPTOR(Tensor, struct descriptor)
DESCRIPTOR(Filter, struct descriptor)
DESCRIPTOR(Convolution, struct descriptor)
DESCRIPTOR(Activation, struct descriptor)

EXPORT int cudnnSetConvolutionMathType(struct descriptor *convolution, int type)
{
    convolution->math_type = type;
    return 0;
}

EXPORT int cudnnGetConvolutionMathType(const struct descriptor *convolution, int *type)
{
    *type = convolution->math_type;
    return 0;
}

/* What else is done to a descriptor. */
ACCEPT(cudnnSetTensor4dDescriptor)
ACCEPT(cudnnSetTensorNdDescriptor)
ACCEPT(cudnnSetFilter4dDescriptor)
ACCEPT(cudnnSetFilterNdDescriptor)
ACCEPT(cudnnSetConvolutionNdDescriptor)
ACCEPT(cudnnSetConvolutionGroupCount)
ACCEPT(cudnnSetConvolutionReorderType)
ACCEPT(cudnnSetActivationDescriptor)

/* XLA has put no workspace into its plan for an algorithm that it has not timed. */
#define NO_WORKSPACE(name)                                                                   \
    EXPORT int name(void *handle, void *input, void *other, void *convolution, void *output, \
                    int algorithm, size_t *bytes)                                            \
    {                                                                                        \
        *bytes = 0;                                                                          \
        return 0;                                                                            \
    }

NO_WORKSPACE(cudnnGetConvolutionForwardWorkspaceSize)
NO_WORKSPACE(cudnnGetConvolutionBackwardDataWorkspaceSize)
NO_WORKSPACE(cudnnGetConvolutionBackwardFilterWorkspaceSize)

REFUSE(cudnnConvolutionForward)
REFUSE(cudnnConvolutionBackwardData)
REFUSE(cudnnConvolutionBackwardFilter)
REFUSE(cudnnConvolutionBiasActivationForward)
