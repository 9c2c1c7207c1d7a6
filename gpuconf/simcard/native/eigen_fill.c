/* Without fills a simulated GPU could hold no tf.zeros, the commonest way to take memory.
 *
 * TensorFlow fills on the GPU with Eigen's EigenMetaKernel(evaluator, size), where the evaluator
 * is passed by value and is that of `tensor = tensor.constant(functor)`.  What lies in it
 * follows from the type spelled out in the kernel's name (Eigen's TensorAssign.h, TensorMap and
 * TensorEvaluator): the tensor's address, its size and the device, then the functor, then the
 * same three once more, since the constant's shape is that of the tensor itself.  All of it is
 * checked before a byte is written; whatever differs is refused as any other kernel is. */
#include "eigen_fill.h"

#include <stdint.h>
#include <string.h>

#include "engine.h"

struct tensor {
    void *data;
    int64_t size; /* 32 bits of it, or all, as the index type in the name says */
    const void *device;
};

struct evaluator {
    struct tensor left;
    union {
        const void *pointer; /* scalar_const_op (TensorFlow's): the value is on the device */
        char bytes[8];       /* scalar_constant_op (Eigen's): the value itself */
    } functor;
    struct tensor right;
};

/* The name, with % for the element's type and # for the index's, in the Itanium C++ mangling. */
#define FILL_NAME(functor)                                                                      \
    "_ZN5Eigen8internal15EigenMetaKernelINS_15TensorEvaluatorIKNS_14TensorAssignOpINS_"         \
    "9TensorMapINS_6TensorI%Li1ELi1E#EELi16ENS_11MakePointerEEEKNS_20TensorCwiseNullaryOpINS0_" \
    functor "I%EEKS8_EEEENS_9GpuDeviceEEE#EEvT_T0_"

static const char by_pointer[] = FILL_NAME("15scalar_const_op");
static const char by_value[] = FILL_NAME("18scalar_constant_op");

/* True if `name` is `pattern`; sets what stands for % and #, each one letter throughout. */
static int matches(const char *name, const char *pattern, char *element, char *index)
{
    *element = *index = '\0';
    for (; *pattern != '\0'; pattern++, name++) {
        char *letter = *pattern == '%' ? element : *pattern == '#' ? index : NULL;
        if (letter != NULL && *letter == '\0')
            *letter = *name;
        if (*name == '\0' || *name != (letter != NULL ? *letter : *pattern))
            return 0;
    }
    return *name == '\0';
}

/* Bytes of a built-in type by its letter in the mangling; 0 for any other. */
static size_t bytes_of(char letter)
{
    switch (letter) {
    case 'b': case 'a': case 'h': case 'c':
        return 1;
    case 's': case 't':
        return 2;
    case 'i': case 'j': case 'f':
        return 4;
    case 'l': case 'm': case 'x': case 'y': case 'd':
        return 8;
    default:
        return 0;
    }
}

static int64_t cut(int64_t size, char index)
{
    return index == 'i' ? (int32_t)size : size;
}

/* The three facts that the evaluator states twice, and the size that the launch states too. */
static int is_consistent(const struct evaluator *evaluator, int64_t size, char index)
{
    const struct tensor *left = &evaluator->left;
    const struct tensor *right = &evaluator->right;
    return size > 0 && left->data == right->data && left->device == right->device &&
           cut(left->size, index) == size && cut(right->size, index) == size;
}

/* Before TensorFlow 1.14 Eigen kept behind each of the two tensors a pointer to it. */
static struct evaluator read_evaluator(const char *from, size_t kept_bytes)
{
    struct evaluator read;
    memcpy(&read.left, from, sizeof read.left);
    from += sizeof read.left + kept_bytes;
    memcpy(&read.functor, from, sizeof read.functor);
    from += sizeof read.functor;
    memcpy(&read.right, from, sizeof read.right);
    return read;
}

static int on_device(const void *where, size_t bytes)
{
    struct allocation found;
    return gpuconf_find(where, bytes, &found) == CUDA_OK && found.type == MEMORY_DEVICE;
}

static void repeat(char *to, const char *value, size_t element_bytes, size_t bytes)
{
    size_t done = element_bytes;
    memcpy(to, value, element_bytes);
    while (done < bytes) { /* doubling what is there already */
        size_t step = done < bytes - done ? done : bytes - done;
        memcpy(to + done, to, step);
        done += step;
    }
}

int eigen_fill(const char *name, void **arguments)
{
    char element, index;
    int value_is_remote = matches(name, by_pointer, &element, &index);
    if (!value_is_remote && !matches(name, by_value, &element, &index))
        return 0;
    size_t element_bytes = bytes_of(element);
    if (element_bytes == 0 || (index != 'i' && index != 'l'))
        return 0;
    struct evaluator evaluator = read_evaluator(arguments[0], 0);
    int64_t size = index == 'i' ? *(int32_t *)arguments[1] : *(int64_t *)arguments[1];
    if (!is_consistent(&evaluator, size, index))
        evaluator = read_evaluator(arguments[0], sizeof(void *));
    if (!is_consistent(&evaluator, size, index))
        return 0;
    size_t bytes = (size_t)size * element_bytes;
    const char *value = evaluator.functor.bytes;
    if (value_is_remote)
        value = evaluator.functor.pointer;
    if (!on_device(evaluator.left.data, bytes) ||
        (value_is_remote && !on_device(value, element_bytes)))
        return 0;
    repeat(evaluator.left.data, value, element_bytes, bytes);
    return 1;
}
