/* libcuda.so.1: streams, their callbacks, and events.
 *
 * All work is done before the call that asks for it returns, so a stream is always idle and an event
 * has happened as soon as it is recorded. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "engine.h"

typedef void (*host_function)(void *);
typedef void (*stream_callback)(void *stream, int status, void *data);

struct stream {
    int priority;
};

int gpuconf_stream_create(void **stream, unsigned flags, int priority)
{
    struct stream *made = calloc(1, sizeof *made);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    made->priority = priority;
    *stream = made;
    return CUDA_OK;
}
SAME(cuStreamCreateWithPriority, gpuconf_stream_create)

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    return gpuconf_stream_create(stream, flags, 0);
}

int gpuconf_stream_priority(const void *stream)
{
    return stream == NULL ? 0 : ((const struct stream *)stream)->priority;
}

EXPORT int cuStreamGetPriority(void *stream, int *priority)
{
    *priority = gpuconf_stream_priority(stream);
    return engine_ready();
}

int gpuconf_handle_free(void *handle)
{
    free(handle);
    return CUDA_OK;
}
SAME(cuStreamDestroy_v2, gpuconf_handle_free)
SAME(cuEventDestroy_v2, gpuconf_handle_free)

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

EXPORT int cuStreamWriteValue32(void *stream, void *to, unsigned value)
{
    return gpuconf_copy(to, &value, sizeof value, DESTINATION_ON_DEVICE);
}

EXPORT int cuStreamWriteValue64(void *stream, void *to, unsigned long long value)
{
    return gpuconf_copy(to, &value, sizeof value, DESTINATION_ON_DEVICE);
}

/* ---- events ---- */

struct event {
    struct timespec recorded;
};

int gpuconf_event_create(void **event)
{
    *event = calloc(1, sizeof(struct event));
    return *event == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}
SAME(cuEventCreate, gpuconf_event_create)

int gpuconf_event_record(void *event)
{
    if (event == NULL)
        return CUDA_INVALID_HANDLE;
    clock_gettime(CLOCK_MONOTONIC, &((struct event *)event)->recorded);
    return engine_ready();
}
SAME(cuEventRecord, gpuconf_event_record)

int gpuconf_event_elapsed(float *milliseconds, void *start, void *end)
{
    if (start == NULL || end == NULL)
        return CUDA_INVALID_HANDLE;
    const struct timespec *from = &((struct event *)start)->recorded;
    const struct timespec *to = &((struct event *)end)->recorded;
    *milliseconds = (float)(to->tv_sec - from->tv_sec) * 1e3f +
                    (float)(to->tv_nsec - from->tv_nsec) * 1e-6f;
    return CUDA_OK;
}
SAME(cuEventElapsedTime, gpuconf_event_elapsed)
SAME(cuEventElapsedTime_v2, gpuconf_event_elapsed)

EXPORT int cuEventQuery(void *event)
{
    return event == NULL ? CUDA_INVALID_HANDLE : engine_ready();
}
SAME(cuEventSynchronize, cuEventQuery)
