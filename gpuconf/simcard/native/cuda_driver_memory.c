/* libcuda.so.1: allocating, and asking about, device and host memory.  A CUdeviceptr is a pointer
 * here, as everywhere in these files. */
#define _GNU_SOURCE
#include <string.h>

#include "engine.h"

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    int device;
    int status = engine_current_device(&device);
    return status == CUDA_OK ? gpuconf_memory_info(device, free_bytes, total_bytes) : status;
}

EXPORT int cuMemAlloc_v2(void **address, size_t bytes)
{
    int device;
    *address = NULL;
    int status = engine_current_device(&device);
    return status == CUDA_OK ? gpuconf_allocate(device, bytes, address) : status;
}

EXPORT int cuMemFree_v2(void *address)
{
    return gpuconf_free(address, MEMORY_DEVICE);
}

EXPORT int cuMemAllocManaged(void **address, size_t bytes, unsigned flags)
{
    *address = NULL;
    return CUDA_NOT_SUPPORTED;
}

EXPORT int cuMemHostAlloc(void **where, size_t bytes, unsigned flags)
{
    int status = engine_ready();
    return status == CUDA_OK ? gpuconf_allocate_host(bytes, where) : status;
}
SAME(cuMemAllocHost_v2, cuMemHostAlloc)

EXPORT int cuMemFreeHost(void *where)
{
    return gpuconf_free(where, MEMORY_HOST);
}

EXPORT int cuMemHostGetDevicePointer_v2(void **address, void *where, unsigned flags)
{
    *address = where;
    return engine_ready();
}

EXPORT int cuMemGetAddressRange_v2(void **base, size_t *bytes, void *address)
{
    struct allocation found;
    if (gpuconf_find(address, 0, &found) != CUDA_OK)
        return CUDA_NOT_FOUND;
    if (base != NULL)
        *base = found.range.base;
    if (bytes != NULL)
        *bytes = found.range.bytes;
    return CUDA_OK;
}

/* CU_POINTER_ATTRIBUTE_… */
EXPORT int cuPointerGetAttribute(void *data, int attribute, void *address)
{
    struct allocation found;
    if (gpuconf_find(address, 0, &found) != CUDA_OK)
        return CUDA_INVALID_VALUE;
    switch (attribute) {
    case 1: /* context */
        *(struct context **)data = engine_primary(found.device);
        return CUDA_OK;
    case 2: /* memory type */
        *(unsigned *)data = found.type;
        return CUDA_OK;
    case 3: /* device pointer */
    case 4: /* host pointer */
        *(void **)data = address;
        return CUDA_OK;
    case 8: /* is managed */
        *(unsigned *)data = 0;
        return CUDA_OK;
    case 9: /* device */
        *(int *)data = found.device;
        return CUDA_OK;
    case 11: /* start of the range */
        *(void **)data = found.range.base;
        return CUDA_OK;
    case 12: /* its size */
        *(size_t *)data = found.range.bytes;
        return CUDA_OK;
    default:
        return CUDA_NOT_SUPPORTED;
    }
}

/* Several at once.  Of memory that is not CUDA's each is 0 and there is no error. */
EXPORT int cuPointerGetAttributes(unsigned count, const int *attributes, void **data, void *address)
{
    for (unsigned i = 0; i < count; i++) {
        int is_small = attributes[i] == 2 || attributes[i] == 6 || attributes[i] == 8 ||
                       attributes[i] == 9;
        if (cuPointerGetAttribute(data[i], attributes[i], address) != CUDA_OK)
            memset(data[i], 0, is_small ? sizeof(int) : sizeof(void *));
    }
    return engine_ready();
}
