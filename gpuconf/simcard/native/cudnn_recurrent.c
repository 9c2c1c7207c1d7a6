/* cuDNN's recurrent layers, as TensorFlow's own GPU kernels call them: descriptors keep the sizes, from
 * which the sizes of weights and of the reserve follow.  A layer is left undone where kernels are
 * skipped, and refused, by name, elsewhere. */
#include "cudnn_descriptors.h"

enum { LSTM = 2, GRU = 3 };        /* cudnnRNNMode_t; the others have one gate */
enum { FLOAT = 0, DOUBLE = 1 };    /* cudnnDataType_t; the others have two bytes */
enum { BIDIRECTIONAL = 1, NO_BIAS = 0, TRAINING = 1 };

struct layers {
    int algorithm, mode, bias, direction, input_mode, element;
    int32_t inputs, units, projected, count;
};

struct sequences {
    int steps, batch;
};

DESCRIPTOR(RNN, struct layers)

EXPORT int cudnnSetRNNDescriptor_v8(struct layers *layers, int algorithm, int mode, int bias,
                                    int direction, int input_mode, int element, int precision,
                                    int math, int32_t inputs, int32_t units, int32_t projected,
                                    int32_t count, void *dropout, uint32_t flags)
{
    *layers = (struct layers){algorithm, mode, bias, direction, input_mode, element,
                              inputs, units, projected, count};
    return 0;
}

static void answer(int *place, int value)
{
    if (place != NULL)
        *place = value;
}

/* Without precision, math, dropout and flags, which TensorFlow does not ask for. */
EXPORT int cudnnGetRNNDescriptor_v8(const struct layers *layers, int *algorithm, int *mode, int *bias,
                                    int *direction, int *input_mode, int *element, int *precision,
                                    int *math, int32_t *inputs, int32_t *units, int32_t *projected,
                                    int32_t *count, void **dropout, uint32_t *flags)
{
    answer(algorithm, layers->algorithm);
    answer(mode, layers->mode);
    answer(bias, layers->bias);
    answer(direction, layers->direction);
    answer(input_mode, layers->input_mode);
    answer(element, layers->element);
    answer(inputs, layers->inputs);
    answer(units, layers->units);
    answer(projected, layers->projected);
    answer(count, layers->count);
    return 0;
}

DESCRIPTOR(RNNData, struct sequences)

EXPORT int cudnnSetRNNDataDescriptor(struct sequences *sequences, int element, int layout, int steps,
                                     int batch, int width, const int *lengths, void *padding)
{
    *sequences = (struct sequences){steps, batch};
    return 0;
}

static size_t gates(const struct layers *layers)
{
    return layers->mode == LSTM ? 4 : layers->mode == GRU ? 3 : 1;
}

static size_t directions(const struct layers *layers)
{
    return layers->direction == BIDIRECTIONAL ? 2 : 1;
}

static size_t element_bytes(const struct layers *layers)
{
    return layers->element == FLOAT ? 4 : layers->element == DOUBLE ? 8 : 2;
}

/* Each gate has a matrix for the inputs, one for the state, and two biases.  TensorFlow projects no state. */
EXPORT int cudnnGetRNNWeightSpaceSize(void *handle, const struct layers *layers, size_t *bytes)
{
    size_t units = (size_t)layers->units, numbers = 0;
    for (int layer = 0; layer < layers->count; layer++) {
        size_t inputs = layer == 0 ? (size_t)layers->inputs : units * directions(layers);
        numbers += units * (inputs + units + (layers->bias == NO_BIAS ? 0 : 2));
    }
    *bytes = numbers * gates(layers) * directions(layers) * element_bytes(layers);
    return 0;
}

/* A training step keeps what each gate gave, the state, and an LSTM's cell, for each time step. */
EXPORT int cudnnGetRNNTempSpaceSizes(void *handle, const struct layers *layers, int mode,
                                     const struct sequences *inputs, size_t *workspace_bytes,
                                     size_t *reserve_bytes)
{
    size_t kept = gates(layers) + (layers->mode == LSTM ? 2 : 1);
    size_t states = (size_t)inputs->steps * (size_t)inputs->batch * (size_t)layers->units *
                    (size_t)layers->count * directions(layers) * element_bytes(layers);
    if (workspace_bytes != NULL)
        *workspace_bytes = gates(layers) * states;
    if (reserve_bytes != NULL)
        *reserve_bytes = mode == TRAINING ? kept * states : 0;
    return 0;
}

/* Where one gate's weights lie: TensorFlow asks, and reads it only to convert saved weights. */
ACCEPT(cudnnGetRNNWeightParams)

EXPORT int cudnnGetTensorNdDescriptor(void *tensor, int wanted, int *element, int *count,
                                      int *dimensions, int *strides)
{
    *element = FLOAT;
    *count = wanted;
    for (int i = 0; i < wanted; i++)
        dimensions[i] = strides[i] = 1;
    return 0;
}

REFUSE(cudnnSetRNNMatrixMathType)
REFUSE(cudnnRNNSetClip_v8)
REFUSE(cudnnRNNForward)
REFUSE(cudnnRNNBackwardData_v8)
REFUSE(cudnnRNNBackwardWeights_v8)
