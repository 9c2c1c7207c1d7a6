/* libcuda.so.1: virtual memory management. */
#include <string.h>

#include "engine.h"

typedef unsigned long long device_pointer;
typedef unsigned long long physical_handle;

#define TO_POINTER(address) ((void *)(uintptr_t)(address))

enum { LOCATION_DEVICE = 1, PINNED = 1, READ_AND_WRITE = 3 };

struct location { /* CUmemLocation */
    int type, id;
};

struct properties { /* CUmemAllocationProp */
    int type, handle_types;
    struct location location;
    void *metadata;
    unsigned char flags[8];
};

/* Memory of a device only: the host's is not offered. */
static int check_properties(const struct properties *properties)
{
    int status = engine_ready();
    if (status != CUDA_OK)
        return status;
    if (properties->location.type != LOCATION_DEVICE)
        return CUDA_NOT_SUPPORTED;
    return properties->location.id >= 0 && properties->location.id < gpuconf_device_count()
               ? CUDA_OK
               : CUDA_INVALID_DEVICE;
}

EXPORT int cuMemGetAllocationGranularity(size_t *bytes, const struct properties *properties,
                                         int option)
{
    *bytes = VIRTUAL_MEMORY_GRANULARITY;
    return check_properties(properties);
}

EXPORT int cuMemCreate(physical_handle *handle, size_t bytes, const struct properties *properties,
                       unsigned long long flags)
{
    struct physical *made = NULL;
    int status = check_properties(properties);
    if (status == CUDA_OK)
        status = engine_physical_create(properties->location.id, bytes, &made);
    *handle = (uintptr_t)made;
    return status;
}

EXPORT int cuMemRelease(physical_handle handle)
{
    return engine_physical_release(TO_POINTER(handle));
}

EXPORT int cuMemRetainAllocationHandle(physical_handle *handle, void *where)
{
    struct physical *found = NULL;
    int status = engine_physical_retain(where, &found);
    *handle = (uintptr_t)found;
    return status;
}

EXPORT int cuMemGetAllocationPropertiesFromHandle(struct properties *properties,
                                                  physical_handle handle)
{
    memset(properties, 0, sizeof *properties);
    properties->type = PINNED;
    properties->location.type = LOCATION_DEVICE;
    return engine_physical_device(TO_POINTER(handle), &properties->location.id);
}

EXPORT int cuMemAddressReserve(device_pointer *address, size_t bytes, size_t alignment,
                               device_pointer wish, unsigned long long flags)
{
    void *where = NULL;
    int status = engine_ready();
    if (status == CUDA_OK)
        status = engine_reserve_addresses(bytes, alignment, &where);
    *address = (uintptr_t)where;
    return status;
}

EXPORT int cuMemAddressFree(device_pointer address, size_t bytes)
{
    return engine_free_addresses(TO_POINTER(address), bytes);
}

EXPORT int cuMemMap(device_pointer address, size_t bytes, size_t offset, physical_handle handle,
                    unsigned long long flags)
{
    return engine_map(TO_POINTER(address), bytes, offset, TO_POINTER(handle));
}

EXPORT int cuMemUnmap(device_pointer address, size_t bytes)
{
    return engine_unmap(TO_POINTER(address), bytes);
}

/* What is mapped is readable and writable at once. */
EXPORT int cuMemSetAccess(device_pointer address, size_t bytes, const void *access, size_t count)
{
    struct allocation found;
    return gpuconf_find(TO_POINTER(address), bytes, &found);
}

EXPORT int cuMemGetAccess(unsigned long long *flags, const struct location *location,
                          device_pointer address)
{
    struct allocation found;
    int status = gpuconf_find(TO_POINTER(address), 1, &found);
    int is_there = status == CUDA_OK && location->id == found.device;
    *flags = is_there ? READ_AND_WRITE : 0;
    return status;
}
