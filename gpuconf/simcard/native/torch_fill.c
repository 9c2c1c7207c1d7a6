/* PyTorch's torch.zeros, ones, full and fill_ on a GPU are one kernel,
 * vectorized_elementwise_kernel<vector width, FillFunctor<T>, std::array<char*, 1>>(int count,
 * functor, pointers) (aten/src/ATen/native/cuda/CUDALoops.cuh, FillKernel.cu). */
#include "torch_fill.h"

#include <stdint.h>
#include <string.h>

#include "engine.h"

static const char before_width[] = "_ZN2at6native29vectorized_elementwise_kernelILi";
static const char before_type[] = "ENS0_11FillFunctorI";
/* 2.9 and, with one more template argument, 2.15. */
static const char *const after_type[] = {"EESt5arrayIPcLm1EEEEviT0_T1_",
                                         "EESt5arrayIPcLm1EELb0EEEviT0_T1_"};

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    {"b", 1}, {"a", 1}, {"h", 1}, {"s", 2}, {"t", 2}, {"i", 4}, {"j", 4}, {"l", 8}, {"m", 8},
    {"f", 4}, {"d", 8}, {"N3c104HalfE", 2}, {"N3c108BFloat16E", 2},
    {"N3c107complexIfEE", 8}, {"N3c107complexIdEE", 16}, {"N3c1013Float8_e4m3fnE", 1}, {"N3c1011Float8_e5m2E", 1},
};

static size_t element_bytes(const char *name)
{
    if (strncmp(name, before_width, sizeof before_width - 1) != 0)
        return 0;
    name += sizeof before_width - 1;
    while (*name >= '0' && *name <= '9')
        name++;
    if (strncmp(name, before_type, sizeof before_type - 1) != 0)
        return 0;
    name += sizeof before_type - 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t length = strlen(types[i].name);
        if (strncmp(name, types[i].name, length) == 0 &&
            (strcmp(name + length, after_type[0]) == 0 ||
             strcmp(name + length, after_type[1]) == 0))
            return types[i].bytes;
    }
    return 0;
}

int torch_fill(const char *name, void **arguments)
{
    struct allocation found;
    size_t bytes = element_bytes(name);
    if (bytes == 0)
        return 0;
    size_t count = (size_t)*(int *)arguments[0];
    const char *value = arguments[1];
    char *to = *(char **)arguments[2];
    if (gpuconf_find(to, count * bytes, &found) != CUDA_OK)
        return 0;
    int zero = 1;
    for (size_t i = 0; i < bytes; i++)
        zero = zero && value[i] == 0;
    if (zero || bytes == 1) {
        memset(to, value[0], count * bytes);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * bytes, value, bytes);
    return 1;
}
