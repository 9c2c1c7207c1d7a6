/* libcuda.so.1: the work of a stream: copies and fills. */
#include <stddef.h>

#include "engine.h"

typedef unsigned long long device_pointer;

#define TO_POINTER(address) ((void *)(uintptr_t)(address))

/* ---- copies ---- */

EXPORT int cuMemcpyHtoD_v2(device_pointer to, const void *from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), from, bytes, DESTINATION_ON_DEVICE);
}
SAME(cuMemcpyHtoDAsync_v2, cuMemcpyHtoD_v2)

EXPORT int cuMemcpyDtoH_v2(void *to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(to, TO_POINTER(from), bytes, SOURCE_ON_DEVICE);
}
SAME(cuMemcpyDtoHAsync_v2, cuMemcpyDtoH_v2)

EXPORT int cuMemcpyDtoD_v2(device_pointer to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), TO_POINTER(from), bytes,
                        DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE);
}
SAME(cuMemcpyDtoDAsync_v2, cuMemcpyDtoD_v2)

EXPORT int cuMemcpy(device_pointer to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), TO_POINTER(from), bytes, 0);
}
SAME(cuMemcpyAsync, cuMemcpy)

EXPORT int cuMemcpyPeerAsync(device_pointer to, struct context *to_context, device_pointer from,
                             struct context *from_context, size_t bytes, void *stream)
{
    return cuMemcpyDtoD_v2(to, from, bytes);
}

/* ---- fills ---- */

EXPORT int cuMemsetD8_v2(device_pointer to, unsigned char value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 1, count, 1);
}
SAME(cuMemsetD8Async, cuMemsetD8_v2)

EXPORT int cuMemsetD16_v2(device_pointer to, unsigned short value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 2, count, 1);
}
SAME(cuMemsetD16Async, cuMemsetD16_v2)

EXPORT int cuMemsetD32_v2(device_pointer to, unsigned value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 4, count, 1);
}
SAME(cuMemsetD32Async, cuMemsetD32_v2)

EXPORT int cuMemsetD2D8Async(device_pointer to, size_t pitch, unsigned char value, size_t width,
                             size_t height, void *stream)
{
    return gpuconf_fill(TO_POINTER(to), pitch, value, 1, width, height);
}

EXPORT int cuMemsetD2D32Async(device_pointer to, size_t pitch, unsigned value, size_t width,
                              size_t height, void *stream)
{
    return gpuconf_fill(TO_POINTER(to), pitch, value, 4, width, height);
}
