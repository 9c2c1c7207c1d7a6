/* libcudart.so.12 and .13: streams, which do everything at once, and events. */
#include <stddef.h>

#include "cuda_runtime.h"
#include "engine.h"

typedef void (*host_function)(void *);
typedef void (*stream_callback)(void *stream, int status, void *data);

EXPORT int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
    return runtime_note(gpuconf_stream_create(stream, flags, 0));
}

EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = LEAST_PRIORITY;
    *greatest = GREATEST_PRIORITY;
    return CUDA_OK;
}

EXPORT int cudaStreamDestroy(void *stream)
{
    return gpuconf_handle_free(stream);
}
SAME(cudaEventDestroy, cudaStreamDestroy)

EXPORT int cudaStreamSynchronize(void *stream)
{
    return runtime_note(gpuconf_fault());
}
SAME(cudaEventSynchronize, cudaStreamSynchronize)
SAME(cudaEventQuery, cudaStreamSynchronize)

ACCEPT(cudaStreamQuery)
ACCEPT(cudaStreamWaitEvent)

/* Nobody captures graphs here: cuda graphs would have to be launched. */
EXPORT int cudaStreamIsCapturing(void *stream, int *status)
{
    *status = 0;
    return CUDA_OK;
}

EXPORT int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id)
{
    if (id != NULL)
        *id = 0;
    return cudaStreamIsCapturing(stream, status);
}
/* What is left out of the outputs may be: they are told only of a stream that captures. */
SAME(cudaStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo)

EXPORT int cudaEventCreate(void **event)
{
    return runtime_note(gpuconf_event_create(event));
}
SAME(cudaEventCreateWithFlags, cudaEventCreate)

EXPORT int cudaEventRecord(void *event, void *stream)
{
    return runtime_note(gpuconf_event_record(event));
}
SAME(cudaEventRecordWithFlags, cudaEventRecord)

EXPORT int cudaEventElapsedTime(float *milliseconds, void *start, void *end)
{
    return runtime_note(gpuconf_event_elapsed(milliseconds, start, end));
}

EXPORT int cudaStreamCreate(void **stream)
{
    return runtime_note(gpuconf_stream_create(stream, 0, 0));
}

EXPORT int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    return runtime_note(gpuconf_stream_create(stream, flags, priority));
}

EXPORT int cudaStreamGetPriority(void *stream, int *priority)
{
    *priority = gpuconf_stream_priority(stream);
    return CUDA_OK;
}

EXPORT int cudaStreamAddCallback(void *stream, stream_callback callback, void *data,
                                 unsigned flags)
{
    callback(stream, gpuconf_fault(), data);
    return CUDA_OK;
}

EXPORT int cudaLaunchHostFunc(void *stream, host_function function, void *data)
{
    function(data);
    return CUDA_OK;
}

ACCEPT(cudaThreadExchangeStreamCaptureMode)

/* ---- the profiler: there is none, and nothing to start ---- */

ACCEPT(cudaProfilerStart)
ACCEPT(cudaProfilerStop)
