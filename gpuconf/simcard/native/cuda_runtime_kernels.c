/* libcudart.so.12 and .13: kernels are registered by name, and refused by name (fills excepted). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_runtime.h"
#include "engine.h"

struct kernel {
    const void *host;
    const char *name; /* lives as long as the library that registered it */
};

static struct {
    struct kernel *entries;
    size_t count, room;
    int is_sorted; /* by `host`; PyTorch registers some 50,000 */
} kernels;
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    return &handle; /* only has to be non-null */
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
}

EXPORT char __cudaInitModule(void **handle)
{
    return 1;
}

EXPORT void __cudaRegisterVar(void **handle)
{
    /* only kernels look at device variables */
}

EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device_name,
                                   const char *name)
{
    pthread_mutex_lock(&kernels_lock);
    if (kernels.count == kernels.room) {
        size_t room = kernels.room == 0 ? 4096 : 2 * kernels.room;
        struct kernel *entries = realloc(kernels.entries, room * sizeof *entries);
        if (entries != NULL) {
            kernels.entries = entries;
            kernels.room = room;
        }
    }
    if (kernels.count < kernels.room)
        kernels.entries[kernels.count++] = (struct kernel){host, name};
    kernels.is_sorted = 0;
    pthread_mutex_unlock(&kernels_lock);
}

static int compare(const void *left, const void *right)
{
    const char *one = ((const struct kernel *)left)->host;
    const char *other = ((const struct kernel *)right)->host;
    return one < other ? -1 : one > other;
}

static const char *kernel_name(const void *host)
{
    struct kernel key = {host, NULL};
    pthread_mutex_lock(&kernels_lock);
    if (!kernels.is_sorted && kernels.count > 0)
        qsort(kernels.entries, kernels.count, sizeof *kernels.entries, compare);
    kernels.is_sorted = 1;
    const struct kernel *found =
        kernels.count == 0 ? NULL
                           : bsearch(&key, kernels.entries, kernels.count,
                                     sizeof *kernels.entries, compare);
    const char *name = found == NULL ? "(a kernel that no library has registered)" : found->name;
    pthread_mutex_unlock(&kernels_lock);
    return name;
}

struct launch_size {
    unsigned x, y, z;
};

struct launch {
    struct launch_size grid, block;
    size_t shared_bytes;
    void *stream;
};

static _Thread_local struct launch pushed;

EXPORT unsigned __cudaPushCallConfiguration(struct launch_size grid, struct launch_size block,
                                            size_t shared_bytes, void *stream)
{
    pushed = (struct launch){grid, block, shared_bytes, stream};
    return 0;
}

EXPORT int __cudaPopCallConfiguration(struct launch_size *grid, struct launch_size *block,
                                      size_t *shared_bytes, void **stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared_bytes = pushed.shared_bytes;
    *stream = pushed.stream;
    return CUDA_OK;
}

EXPORT int cudaLaunchKernel(const void *function, struct launch_size grid,
                            struct launch_size block, void **arguments)
{
    return runtime_note(gpuconf_launch_kernel(kernel_name(function), arguments, 0));
}
SAME(__cudaLaunchKernel, cudaLaunchKernel)

/* What CUDA 13's compiler calls in its stead. */
EXPORT int __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function;
    return CUDA_OK;
}

EXPORT int cudaLaunchKernelExC(const void *configuration, const void *function)
{
    return runtime_note(gpuconf_launch_kernel(kernel_name(function), NULL, 0));
}

/* struct cudaFuncAttributes of CUDA 12: 144 bytes; threads per block at 24, registers at 28. */
EXPORT int cudaFuncGetAttributes(char *filled, const void *function)
{
    static const int limits[2] = {1024, 32};
    memset(filled, 0, 144);
    memcpy(filled + 24, limits, sizeof limits);
    return CUDA_OK;
}

ACCEPT(cudaFuncSetAttribute)

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks)
{
    *blocks = 1;
    return CUDA_OK;
}

/* XLA launches its own kernels, such as the autotuner's, through the driver. */
EXPORT int cudaGetFuncBySymbol(struct function **function, const void *host)
{
    return runtime_note(gpuconf_function_named(function, kernel_name(host)));
}
