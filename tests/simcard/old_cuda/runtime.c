/* libcudart.so.8.0 to .so.11.0: what the runtime of CUDA 12 no longer has, or has in another
 * form.  The dynamic linker finds everything else in libcudart.so.12, to which this is linked. */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

#include "engine.h"

#ifndef RUNTIME_VERSION
#error "build with -DRUNTIME_VERSION=…, for example 9000 for CUDA 9.0"
#endif

struct launch_size {
    unsigned x, y, z;
};

/* Of libcudart.so.12. */
int cudaGetDeviceProperties_v2(char *filled, int device);
int cudaLaunchKernel(const void *function, struct launch_size grid, struct launch_size block,
                     void **arguments);
unsigned __cudaPushCallConfiguration(struct launch_size grid, struct launch_size block,
                                     size_t shared_bytes, void *stream);
int __cudaPopCallConfiguration(struct launch_size *grid, struct launch_size *block,
                               size_t *shared_bytes, void **stream);

EXPORT int cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return CUDA_OK;
}

/* ---- struct cudaDeviceProp, as it was ---- */

/* Each CUDA release put fields into it.  In CUDA 12's bytes: the UUID and LUID from 256 to 288 came
 * with 10.0, the field at 620 with 11.0, and the end grew with most. */
enum { AT_IDS = 256, AFTER_IDS = 288, AT_L2 = 620, AFTER_L2 = 624, ALIGNED = 640, BYTES_12 = 1032 };
#if RUNTIME_VERSION >= 10000
enum { SHIFT = 0, BYTES = RUNTIME_VERSION >= 11000 ? 728 : 712 };
#else
enum { SHIFT = AFTER_IDS - AT_IDS, BYTES = RUNTIME_VERSION >= 9000 ? 672 : 648 };
#endif

EXPORT int cudaGetDeviceProperties(char *filled, int device)
{
    char now[BYTES_12];
    int status = cudaGetDeviceProperties_v2(now, device);
    if (status != CUDA_OK)
        return status;
    if (RUNTIME_VERSION < 11000) { /* four fields move up; padding before a size_t makes it good */
        memmove(now + AT_L2, now + AFTER_L2, ALIGNED - AFTER_L2);
        memset(now + ALIGNED - (AFTER_L2 - AT_L2), 0, AFTER_L2 - AT_L2);
    }
    memcpy(filled, now, AT_IDS);
    memcpy(filled + AT_IDS, now + AT_IDS + SHIFT, BYTES - AT_IDS);
    return CUDA_OK;
}

/* ---- launches before CUDA 9.2: configure, one call per argument, launch ---- */

#define MOST_ARGUMENTS 256
#define ARGUMENT_BYTES 4096 /* what a kernel may take in all */

static _Thread_local struct {
    _Alignas(16) char bytes[ARGUMENT_BYTES];
    void *places[MOST_ARGUMENTS];
    int count;
} arguments;

EXPORT int cudaConfigureCall(struct launch_size grid, struct launch_size block,
                             size_t shared_bytes, void *stream)
{
    arguments.count = 0;
    return (int)__cudaPushCallConfiguration(grid, block, shared_bytes, stream);
}

EXPORT int cudaSetupArgument(const void *argument, size_t bytes, size_t offset)
{
    if (arguments.count == MOST_ARGUMENTS || offset > ARGUMENT_BYTES ||
        bytes > ARGUMENT_BYTES - offset)
        return CUDA_INVALID_VALUE;
    memcpy(arguments.bytes + offset, argument, bytes);
    arguments.places[arguments.count++] = arguments.bytes + offset;
    return CUDA_OK;
}

EXPORT int cudaLaunch(const void *function)
{
    struct launch_size grid, block;
    size_t shared_bytes;
    void *stream;
    __cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream);
    return cudaLaunchKernel(function, grid, block, arguments.places);
}

/* ---- the rest ---- */

/* struct cudaPointerAttributes: CUDA 10 has the kind of memory twice. */
struct pointer_attributes {
    int kind;
#if RUNTIME_VERSION >= 10000 && RUNTIME_VERSION < 11000
    int kind_again;
#endif
    int device;
    void *device_pointer, *host_pointer;
#if RUNTIME_VERSION < 11000
    int is_managed;
#endif
};

EXPORT int cudaPointerGetAttributes(struct pointer_attributes *filled, void *where)
{
    struct allocation found;
    if (gpuconf_find(where, 0, &found) != CUDA_OK)
        return CUDA_INVALID_VALUE; /* as all of these did, up to CUDA 10 */
    memset(filled, 0, sizeof *filled);
    filled->kind = found.type;
#if RUNTIME_VERSION >= 10000 && RUNTIME_VERSION < 11000
    filled->kind_again = found.type;
#endif
    filled->device = found.device;
    filled->device_pointer = where;
    filled->host_pointer = found.type == MEMORY_HOST ? where : NULL;
    return CUDA_OK;
}

EXPORT int cudaMallocManaged(void **where, size_t bytes, unsigned flags)
{
    *where = NULL;
    return CUDA_NOT_SUPPORTED; /* as cuMemAllocManaged */
}

EXPORT int cudaStreamAddCallback(void *stream, void (*callback)(void *, int, void *), void *data,
                                 unsigned flags)
{
    callback(stream, gpuconf_fault(), data); /* a stream is always done with its work */
    return CUDA_OK;
}
