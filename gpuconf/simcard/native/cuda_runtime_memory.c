/* libcudart.so.12 and .13: memory of the device and page-locked memory of the host. */
#include <string.h>

#include "cuda_runtime.h"
#include "engine.h"

EXPORT int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    int device;
    int status = runtime_enter_device(&device);
    if (status == CUDA_OK)
        status = gpuconf_memory_info(device, free_bytes, total_bytes);
    return runtime_note(status);
}

EXPORT int cudaMalloc(void **where, size_t bytes)
{
    int device;
    *where = NULL;
    int status = runtime_enter_device(&device);
    if (status == CUDA_OK && bytes > 0)
        status = gpuconf_allocate(device, bytes, where);
    return runtime_note(status);
}

EXPORT int cudaFree(void *where)
{
    int device;
    int status = runtime_enter_device(&device); /* cudaFree(0) is the customary way to do just that */
    return runtime_note(status == CUDA_OK ? gpuconf_free(where, MEMORY_DEVICE) : status);
}

EXPORT int cudaMallocHost(void **where, size_t bytes)
{
    return runtime_note(gpuconf_allocate_host(bytes, where));
}
SAME(cudaHostAlloc, cudaMallocHost)

EXPORT int cudaFreeHost(void *where)
{
    return runtime_note(gpuconf_free(where, MEMORY_HOST));
}

/* Kinds: host to host 0, to device 1, from device 2, between devices 3, 4 by the pointers. */
static const int sides[] = {0, DESTINATION_ON_DEVICE, SOURCE_ON_DEVICE,
                            DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE, 0};

EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    if (kind < 0 || kind > 4)
        return runtime_note(CUDA_INVALID_VALUE);
    return runtime_note(gpuconf_copy(to, from, bytes, sides[kind]));
}
SAME(cudaMemcpyAsync, cudaMemcpy)

EXPORT int cudaMemset(void *to, int value, size_t bytes)
{
    return runtime_note(gpuconf_fill(to, 0, (uint32_t)value & 0xff, 1, bytes, 1));
}
SAME(cudaMemsetAsync, cudaMemset)

EXPORT int cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                             void *stream)
{
    return runtime_note(gpuconf_fill(to, pitch, (uint32_t)value & 0xff, 1, width, height));
}

EXPORT int cudaHostRegister(void *where, size_t bytes, unsigned flags)
{
    return runtime_note(engine_register_host(where, bytes));
}

EXPORT int cudaHostUnregister(void *where)
{
    return runtime_note(engine_unregister_host(where));
}

struct pointer_attributes { /* cudaPointerAttributes; CUDA 13 has 8 longs more behind it */
    int type, device; /* 0: not CUDA's, 1: page-locked host memory, 2: device memory */
    void *on_device, *on_host;
};

EXPORT int cudaPointerGetAttributes(struct pointer_attributes *filled, const void *where)
{
    struct allocation found;
    int status = runtime_init();
    if (status != CUDA_OK)
        return runtime_note(status);
    memset(filled, 0, sizeof *filled);
    if (gpuconf_find(where, 0, &found) != CUDA_OK) {
        filled->device = -2;
        filled->on_host = (void *)where;
        return CUDA_OK;
    }
    filled->type = found.type == MEMORY_HOST ? 1 : 2;
    filled->device = found.device;
    filled->on_device = (void *)where;
    filled->on_host = found.type == MEMORY_HOST ? (void *)where : NULL;
    return CUDA_OK;
}

EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                               size_t bytes, void *stream)
{
    return runtime_note(gpuconf_copy(to, from, bytes, DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE));
}

EXPORT int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, int kind, void *stream)
{
    int status = kind < 0 || kind > 4 ? CUDA_INVALID_VALUE : CUDA_OK;
    for (size_t row = 0; row < height && status == CUDA_OK; row++)
        status = gpuconf_copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch,
                              width, sides[kind]);
    return runtime_note(status);
}
