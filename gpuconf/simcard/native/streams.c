#define _GNU_SOURCE
#include "engine.h"

#include <stdlib.h>
#include <time.h>

/* All work is done before the call that asks for it returns, so a stream is always idle and an
 * event has happened as soon as it is recorded. */

struct event {
    struct timespec recorded;
};

struct stream {
    unsigned flags;
    int priority;
};

int gpuconf_event_create(void **event)
{
    *event = calloc(1, sizeof(struct event));
    return *event == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

int gpuconf_event_record(void *event)
{
    if (event == NULL)
        return CUDA_INVALID_HANDLE;
    clock_gettime(CLOCK_MONOTONIC, &((struct event *)event)->recorded);
    return engine_ready();
}

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

int gpuconf_stream_create(void **stream, unsigned flags, int priority)
{
    struct stream *made = calloc(1, sizeof *made);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    made->flags = flags;
    made->priority = priority;
    *stream = made;
    return CUDA_OK;
}

int gpuconf_stream_priority(const void *stream)
{
    return stream == NULL ? 0 : ((const struct stream *)stream)->priority;
}

void gpuconf_handle_free(void *handle)
{
    free(handle);
}
