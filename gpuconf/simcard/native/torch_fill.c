/* PyTorch's torch.zeros, ones, full and fill_ on a GPU are one kernel,
 * vectorized_elementwise_kernel<vector width, FillFunctor<T>, array of one pointer>(int count,
 * functor, pointers) (aten/src/ATen/native/cuda/CUDALoops.cuh, FillKernel.cu). */
#include "torch_fill.h"

#include <stdint.h>
#include <string.h>

#include "engine.h"

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

static int is_zero(const char *value, size_t bytes)
{
    static const char zeros[16];
    return memcmp(value, zeros, bytes) == 0;
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
    if (bytes == 1 || is_zero(value, bytes)) {
        memset(to, value[0], count * bytes);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * bytes, value, bytes);
    return 1;
}
