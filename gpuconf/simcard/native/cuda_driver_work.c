/* libcuda.so.1: the work of a stream: copies and fills. */
#include <stddef.h>

#include "engine.h"

/* ---- copies ---- */

EXPORT int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes)
{
    return gpuconf_copy(to, from, bytes, DESTINATION_ON_DEVICE);
}
SAME(cuMemcpyHtoDAsync_v2, cuMemcpyHtoD_v2)

EXPORT int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes)
{
    return gpuconf_copy(to, from, bytes, SOURCE_ON_DEVICE);
}
SAME(cuMemcpyDtoHAsync_v2, cuMemcpyDtoH_v2)

EXPORT int cuMemcpyDtoD_v2(void *to, const void *from, size_t bytes)
{
    return gpuconf_copy(to, from, bytes, DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE);
}
SAME(cuMemcpyDtoDAsync_v2, cuMemcpyDtoD_v2)

EXPORT int cuMemcpy(void *to, const void *from, size_t bytes)
{
    return gpuconf_copy(to, from, bytes, 0);
}
SAME(cuMemcpyAsync, cuMemcpy)

EXPORT int cuMemcpyPeerAsync(void *to, struct context *to_context, void *from,
                             struct context *from_context, size_t bytes, void *stream)
{
    return cuMemcpyDtoD_v2(to, from, bytes);
}

/* ---- fills ---- */

EXPORT int cuMemsetD8_v2(void *to, unsigned char value, size_t count)
{
    return gpuconf_fill(to, 0, value, 1, count, 1);
}
SAME(cuMemsetD8Async, cuMemsetD8_v2)

EXPORT int cuMemsetD16_v2(void *to, unsigned short value, size_t count)
{
    return gpuconf_fill(to, 0, value, 2, count, 1);
}
SAME(cuMemsetD16Async, cuMemsetD16_v2)

EXPORT int cuMemsetD32_v2(void *to, unsigned value, size_t count)
{
    return gpuconf_fill(to, 0, value, 4, count, 1);
}
SAME(cuMemsetD32Async, cuMemsetD32_v2)

EXPORT int cuMemsetD2D8Async(void *to, size_t pitch, unsigned char value, size_t width,
                             size_t height, void *stream)
{
    return gpuconf_fill(to, pitch, value, 1, width, height);
}

EXPORT int cuMemsetD2D32Async(void *to, size_t pitch, unsigned value, size_t width,
                              size_t height, void *stream)
{
    return gpuconf_fill(to, pitch, value, 4, width, height);
}
