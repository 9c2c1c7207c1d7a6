/* libcudart.so.12 and .so.13: what PyTorch calls beyond what TensorFlow does. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cuda_runtime.h"
#include "engine.h"

typedef void (*host_function)(void *);
typedef void (*stream_callback)(void *stream, int status, void *data);

/* ---- devices ---- */

EXPORT int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device;
    (void)peer;
    *can = 0;
    return CUDA_OK;
}

EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer;
    (void)flags;
    return runtime_note(CUDA_PEER_ACCESS_UNSUPPORTED);
}

EXPORT int cudaDeviceGetPCIBusId(char *text, int room, int device)
{
    if (gpuconf_init() != CUDA_OK || device < 0 || device >= gpuconf_device_count())
        return runtime_note(CUDA_INVALID_DEVICE);
    snprintf(text, (size_t)room, "0000:%02x:00.0", (gpuconf_device_gpu(device) + 1) & 0xff);
    return CUDA_OK;
}

/* ---- the driver's functions by name ---- */

EXPORT int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                   int *result)
{
    (void)flags;
    *function = gpuconf_driver_function(name);
    if (result != NULL)
        *result = *function == NULL ? 1 : 0; /* cudaDriverEntryPointSymbolNotFound */
    return *function == NULL && result == NULL ? runtime_note(CUDA_NOT_FOUND) : CUDA_OK;
}

EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                            unsigned long long flags, int *result)
{
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, result);
}

EXPORT char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

/* ---- memory ---- */

EXPORT int cudaHostAlloc(void **where, size_t bytes, unsigned flags)
{
    (void)flags;
    return runtime_note(gpuconf_allocate_host(bytes, where));
}

EXPORT int cudaHostRegister(void *where, size_t bytes, unsigned flags)
{
    (void)flags;
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
    int status = gpuconf_init();
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
    (void)to_device, (void)from_device, (void)stream;
    return runtime_note(gpuconf_copy(to, from, bytes, DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE));
}

EXPORT int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, int kind, void *stream)
{
    static const int sides[] = {0, DESTINATION_ON_DEVICE, SOURCE_ON_DEVICE,
                                DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE, 0};
    (void)stream;
    if (kind < 0 || kind > 4)
        return runtime_note(CUDA_INVALID_VALUE);
    int status = CUDA_OK;
    for (size_t row = 0; row < height && status == CUDA_OK; row++)
        status = gpuconf_copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch,
                              width, sides[kind]);
    return runtime_note(status);
}

/* ---- streams and events ---- */

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
    (void)flags;
    callback(stream, gpuconf_fault(), data);
    return CUDA_OK;
}

EXPORT int cudaLaunchHostFunc(void *stream, host_function function, void *data)
{
    (void)stream;
    function(data);
    return CUDA_OK;
}

EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    (void)mode;
    return CUDA_OK;
}

EXPORT int cudaEventQuery(void *event)
{
    (void)event;
    return runtime_note(gpuconf_fault());
}

EXPORT int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    (void)stream;
    (void)flags;
    return runtime_note(gpuconf_event_record(event));
}

EXPORT int cudaProfilerStart(void)
{
    return CUDA_OK;
}

EXPORT int cudaProfilerStop(void)
{
    return CUDA_OK;
}
