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

EXPORT int cuMemcpyDtoH_v2(void *to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(to, TO_POINTER(from), bytes, SOURCE_ON_DEVICE);
}

EXPORT int cuMemcpyDtoD_v2(device_pointer to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), TO_POINTER(from), bytes,
                        DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE);
}

EXPORT int cuMemcpy(device_pointer to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), TO_POINTER(from), bytes, 0);
}

EXPORT int cuMemcpyHtoDAsync_v2(device_pointer to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpyHtoD_v2(to, from, bytes);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, device_pointer from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpyDtoH_v2(to, from, bytes);
}

EXPORT int cuMemcpyDtoDAsync_v2(device_pointer to, device_pointer from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpyDtoD_v2(to, from, bytes);
}

EXPORT int cuMemcpyAsync(device_pointer to, device_pointer from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpy(to, from, bytes);
}

EXPORT int cuMemcpyPeerAsync(device_pointer to, struct context *to_context, device_pointer from,
                             struct context *from_context, size_t bytes, void *stream)
{
    (void)to_context;
    (void)from_context;
    return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

/* ---- fills ---- */

EXPORT int cuMemsetD8_v2(device_pointer to, unsigned char value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 1, count, 1);
}

EXPORT int cuMemsetD16_v2(device_pointer to, unsigned short value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 2, count, 1);
}

EXPORT int cuMemsetD32_v2(device_pointer to, unsigned value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 4, count, 1);
}

EXPORT int cuMemsetD8Async(device_pointer to, unsigned char value, size_t count, void *stream)
{
    (void)stream;
    return cuMemsetD8_v2(to, value, count);
}

EXPORT int cuMemsetD16Async(device_pointer to, unsigned short value, size_t count, void *stream)
{
    (void)stream;
    return cuMemsetD16_v2(to, value, count);
}

EXPORT int cuMemsetD32Async(device_pointer to, unsigned value, size_t count, void *stream)
{
    (void)stream;
    return cuMemsetD32_v2(to, value, count);
}

EXPORT int cuMemsetD2D8Async(device_pointer to, size_t pitch, unsigned char value, size_t width,
                             size_t height, void *stream)
{
    (void)stream;
    return gpuconf_fill(TO_POINTER(to), pitch, value, 1, width, height);
}

EXPORT int cuMemsetD2D32Async(device_pointer to, size_t pitch, unsigned value, size_t width,
                              size_t height, void *stream)
{
    (void)stream;
    return gpuconf_fill(TO_POINTER(to), pitch, value, 4, width, height);
}
