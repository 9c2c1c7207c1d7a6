/* libcuda.so.1: streams, on which everything is done at once, their callbacks, and events. */
#include <stddef.h>

#include "engine.h"

typedef unsigned long long device_pointer;
typedef void (*host_function)(void *);
typedef void (*stream_callback)(void *stream, int status, void *data);

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    return gpuconf_stream_create(stream, flags, 0);
}

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    return gpuconf_stream_create(stream, flags, priority);
}

EXPORT int cuStreamGetPriority(void *stream, int *priority)
{
    *priority = gpuconf_stream_priority(stream);
    return engine_ready();
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
    gpuconf_handle_free(stream);
    return CUDA_OK;
}
SAME(cuEventDestroy_v2, cuStreamDestroy_v2)

EXPORT int cuStreamSynchronize(void *stream)
{
    return gpuconf_fault();
}

EXPORT int cuStreamQuery(void *stream)
{
    return engine_ready();
}
SAME(cuStreamWaitEvent, cuStreamQuery)

EXPORT int cuStreamIsCapturing(void *stream, int *status)
{
    *status = 0;
    return engine_ready();
}

EXPORT int cuStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id)
{
    if (id != NULL)
        *id = 0;
    return cuStreamIsCapturing(stream, status);
}
/* What is left out of the outputs may be: they are told only of a stream that captures. */
SAME(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo)

EXPORT int cuStreamAddCallback(void *stream, stream_callback callback, void *data, unsigned flags)
{
    callback(stream, engine_ready(), data);
    return engine_ready();
}

EXPORT int cuLaunchHostFunc(void *stream, host_function function, void *data)
{
    int status = engine_ready();
    if (status == CUDA_OK)
        function(data);
    return status;
}

EXPORT int cuStreamWriteValue32(void *stream, device_pointer address, unsigned value,
                                unsigned flags)
{
    void *to = (void *)(uintptr_t)address;
    return gpuconf_copy(to, &value, sizeof value, DESTINATION_ON_DEVICE);
}

EXPORT int cuStreamWriteValue64(void *stream, device_pointer address, unsigned long long value,
                                unsigned flags)
{
    void *to = (void *)(uintptr_t)address;
    return gpuconf_copy(to, &value, sizeof value, DESTINATION_ON_DEVICE);
}

EXPORT int cuEventCreate(void **event, unsigned flags)
{
    return gpuconf_event_create(event);
}

EXPORT int cuEventRecord(void *event, void *stream)
{
    return gpuconf_event_record(event);
}

EXPORT int cuEventQuery(void *event)
{
    return event == NULL ? CUDA_INVALID_HANDLE : engine_ready();
}
SAME(cuEventSynchronize, cuEventQuery)

EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    return gpuconf_event_elapsed(milliseconds, start, end);
}
SAME(cuEventElapsedTime_v2, cuEventElapsedTime)
