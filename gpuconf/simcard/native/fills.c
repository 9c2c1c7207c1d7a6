/* Without fills a simulated GPU could hold no tf.zeros and no torch.zeros, the commonest ways to take
 * memory.  They are kernels, known by their names. */
#include <stdint.h>
#include <string.h>

#include "engine.h"

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

/* ---- TensorFlow's ----
 *
 * TensorFlow fills on the GPU with Eigen's EigenMetaKernel(evaluator, size), where the evaluator
 * is passed by value and is that of `tensor = tensor.constant(functor)`.  What lies in it
 * follows from the type spelled out in the kernel's name (Eigen's TensorAssign.h, TensorMap and
 * TensorEvaluator): the tensor's address, its size and the device, then the functor, then the
 * same three once more, since the constant's shape is that of the tensor itself.  All of it is
 * checked before a byte is written; whatever differs is refused as any other kernel is. */
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

static int eigen_fill(const char *name, void **arguments)
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

/* ---- PyTorch's ----
 *
 * torch.zeros, ones, full and fill_ are one kernel, vectorized_elementwise_kernel<vector width,
 * FillFunctor<T>, array of one pointer>(int count, functor, pointers)
 * (aten/src/ATen/native/cuda/CUDALoops.cuh, FillKernel.cu). */
static const char before_width[] = "_ZN2at6native29vectorized_elementwise_kernelILi";
static const char before_type[] = "ENS0_11FillFunctorI";
/* Which array it is, and whether there is one more template argument, differs by version. */
static const char *const after_type[] = {
    "EENS_6detail5ArrayIPcLi1EEEEEviT0_T1_", /* 2.4 and 2.5 */
    "EESt5arrayIPcLm1EEEEviT0_T1_",          /* 2.6 to 2.13 */
    "EESt5arrayIPcLm1EELb0EEEviT0_T1_",      /* 2.14 and 2.15 */
};

/* As the compiler mangles them. */
static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    {"b", 1},                         /* bool */
    {"a", 1},                         /* signed char */
    {"h", 1},                         /* unsigned char */
    {"s", 2},                         /* short, and so on */
    {"t", 2},
    {"i", 4},
    {"j", 4},
    {"l", 8},
    {"m", 8},
    {"f", 4},
    {"d", 8},
    {"N3c104HalfE", 2},
    {"N3c108BFloat16E", 2},
    {"N3c107complexIfEE", 8},
    {"N3c107complexIdEE", 16},
    {"N3c1013Float8_e4m3fnE", 1},
    {"N3c1011Float8_e5m2E", 1},
};

/* What follows if `name` begins so, else NULL. */
static const char *after(const char *name, const char *beginning)
{
    size_t length = strlen(beginning);
    return strncmp(name, beginning, length) == 0 ? name + length : NULL;
}

static int is_an_end(const char *name)
{
    for (size_t i = 0; i < sizeof after_type / sizeof *after_type; i++)
        if (strcmp(name, after_type[i]) == 0)
            return 1;
    return 0;
}

/* The size of an element that the kernel of this name fills, 0 if it is another kernel. */
static size_t element_bytes(const char *name)
{
    name = after(name, before_width);
    if (name == NULL)
        return 0;
    name += strspn(name, "0123456789");
    name = after(name, before_type);
    for (size_t i = 0; name != NULL && i < sizeof types / sizeof *types; i++) {
        const char *rest = after(name, types[i].name);
        if (rest != NULL && is_an_end(rest))
            return types[i].bytes;
    }
    return 0;
}

static int torch_fill(const char *name, void **arguments)
{
    size_t element = element_bytes(name);
    if (element == 0)
        return 0;
    size_t bytes = (size_t)*(int *)arguments[0] * element;
    char *to = *(char **)arguments[2];
    if (bytes == 0 || !on_device(to, bytes))
        return 0;
    repeat(to, arguments[1], element, bytes);
    return 1;
}

int engine_fill_by_kernel(const char *name, void **arguments)
{
    return eigen_fill(name, arguments) || torch_fill(name, arguments);
}
