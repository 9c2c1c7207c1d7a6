/* libcudart.so.12: the part of the CUDA runtime API that TensorFlow calls itself; the rest of
 * TensorFlow goes to the driver. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cuda_runtime.h"
#include "engine.h"

#ifndef CUDA_MAJOR
#define CUDA_MAJOR 12
#endif
#define RUNTIME_VERSION (CUDA_MAJOR >= 13 ? 13020 : 12050)

static _Thread_local int last_error;
static _Thread_local int chosen_device;

int runtime_note(int error)
{
    if (error != CUDA_OK)
        last_error = error;
    return error;
}

/* ---- versions and errors ---- */

EXPORT int cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return CUDA_OK;
}

EXPORT int cudaDriverGetVersion(int *version)
{
    struct card_file *card = gpuconf_init() == CUDA_OK ? gpuconf_card() : NULL;
    *version = card == NULL ? 0 : (int)gpuconf_spec()->cuda_version;
    return CUDA_OK;
}

EXPORT int cudaGetLastError(void)
{
    int error = last_error;
    last_error = CUDA_OK;
    return error;
}

EXPORT int cudaPeekAtLastError(void)
{
    return last_error;
}

EXPORT const char *cudaGetErrorName(int error)
{
    switch (error) {
    case CUDA_OK:
        return "cudaSuccess";
    case CUDA_INVALID_VALUE:
        return "cudaErrorInvalidValue";
    case CUDA_OUT_OF_MEMORY:
        return "cudaErrorMemoryAllocation";
    case CUDA_NOT_INITIALIZED:
        return "cudaErrorInitializationError";
    case CUDA_NO_DEVICE:
        return "cudaErrorNoDevice";
    case CUDA_INVALID_DEVICE:
        return "cudaErrorInvalidDevice";
    case CUDA_LAUNCH_FAILED:
        return "cudaErrorLaunchFailure";
    case CUDA_NOT_SUPPORTED:
        return "cudaErrorNotSupported";
    default:
        return "cudaErrorUnknown";
    }
}

EXPORT const char *cudaGetErrorString(int error)
{
    switch (error) {
    case CUDA_OK:
        return "no error";
    case CUDA_OUT_OF_MEMORY:
        return "out of memory";
    case CUDA_NO_DEVICE:
        return "no CUDA-capable device is detected";
    case CUDA_LAUNCH_FAILED:
        return "unspecified launch failure (a simulated card runs no kernels)";
    case CUDA_NOT_SUPPORTED:
        return "operation not supported (by a simulated card)";
    default:
        return cudaGetErrorName(error);
    }
}

/* ---- devices ---- */

/* The device of the thread's driver context if it has one, as the real runtime does. */
static int current_device(void)
{
    struct context *context = gpuconf_current_context();
    return context == NULL ? chosen_device : gpuconf_context_device(context);
}

/* The runtime makes a device's primary context when it first needs it. */
static int enter_device(int *device)
{
    int status = gpuconf_init();
    if (status != CUDA_OK)
        return status;
    *device = current_device();
    if (gpuconf_current_context() != NULL)
        return CUDA_OK;
    struct context *context;
    status = gpuconf_retain_primary(*device, &context);
    if (status == CUDA_OK)
        gpuconf_set_current_context(context);
    return status;
}

EXPORT int cudaGetDeviceCount(int *count)
{
    int status = gpuconf_init();
    *count = status == CUDA_OK ? gpuconf_device_count() : 0;
    return runtime_note(status);
}

EXPORT int cudaGetDevice(int *device)
{
    int status = gpuconf_init();
    *device = current_device();
    return runtime_note(status);
}

/* Since CUDA 12 this makes the primary context at once. */
EXPORT int cudaSetDevice(int device)
{
    int status = gpuconf_init();
    if (status == CUDA_OK && (device < 0 || device >= gpuconf_device_count()))
        status = CUDA_INVALID_DEVICE;
    if (status != CUDA_OK)
        return runtime_note(status);
    struct context *current = gpuconf_current_context();
    chosen_device = device;
    if (current == NULL || gpuconf_context_device(current) != device) {
        gpuconf_set_current_context(NULL);
        status = enter_device(&device);
    }
    return runtime_note(status);
}

EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    int status = gpuconf_init();
    if (status == CUDA_OK && (device < 0 || device >= gpuconf_device_count()))
        status = CUDA_INVALID_DEVICE;
    if (status == CUDA_OK)
        *value = gpuconf_device_attribute(attribute, device);
    return runtime_note(status);
}

EXPORT int cudaDeviceSynchronize(void)
{
    return runtime_note(gpuconf_fault());
}

/* struct cudaDeviceProp of CUDA 12 is 1032 bytes.  Its fields are those of the driver's
 * attributes; here is where each lies (CUDA 12 driver_types.h), and its size. */
#if CUDA_MAJOR >= 13
#define PROPERTIES_BYTES 1008
#else
#define PROPERTIES_BYTES 1032
#endif
static const struct {
    short offset, bytes, attribute;
} properties[] = {
#if CUDA_MAJOR >= 13
    {296, 8, 8}, {304, 4, 12}, {308, 4, 10}, {312, 8, 11}, {320, 4, 1}, {324, 4, 2}, {328, 4, 3}, {332, 4, 4}, {336, 4, 5}, {340, 4, 6}, {344, 4, 7}, {352, 8, 9}, {360, 4, 75}, {364, 4, 76}, {368, 8, 14}, {376, 8, 51}, {384, 4, 16}, {392, 4, 19}, {560, 4, 31}, {568, 4, 33}, {584, 4, 40}, {588, 4, 41}, {592, 4, 37}, {596, 4, 38}, {604, 4, 39}, {608, 4, 78}, {612, 4, 79}, {616, 4, 80}, {624, 8, 81}, {632, 4, 82}, {672, 8, 97}, {688, 4, 106}, {696, 8, 111},
#else
    {296, 8, 8},   {304, 4, 12},  {308, 4, 10}, {312, 8, 11},  {320, 4, 1},   {324, 4, 2},
    {328, 4, 3},   {332, 4, 4},   {336, 4, 5},  {340, 4, 6},   {344, 4, 7},   {348, 4, 13},
    {352, 8, 9},   {360, 4, 75},  {364, 4, 76}, {368, 8, 14},  {376, 8, 51},  {388, 4, 16},
    {400, 4, 19},  {576, 4, 31},  {584, 4, 33}, {600, 4, 40},  {604, 4, 41},  {608, 4, 36},
    {612, 4, 37},  {616, 4, 38},  {624, 4, 39}, {628, 4, 78},  {632, 4, 79},  {636, 4, 80},
    {640, 8, 81},  {648, 4, 82},  {696, 8, 97}, {712, 4, 106}, {720, 8, 111},
#endif
};

#if CUDA_MAJOR >= 13
#define cudaGetDeviceProperties_v2 cudaGetDeviceProperties
#endif

EXPORT int cudaGetDeviceProperties_v2(char *filled, int device)
{
    int status = gpuconf_init();
    if (status == CUDA_OK && (device < 0 || device >= gpuconf_device_count()))
        status = CUDA_INVALID_DEVICE;
    if (status != CUDA_OK)
        return runtime_note(status);
    memset(filled, 0, PROPERTIES_BYTES);
    snprintf(filled, 256, "%s", gpuconf_spec()->name);
    gpuconf_device_uuid(device, (unsigned char *)filled + 256);
    size_t total = gpuconf_spec()->total_bytes;
    memcpy(filled + 288, &total, sizeof total);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        int64_t value = gpuconf_device_attribute(properties[i].attribute, device);
        memcpy(filled + properties[i].offset, &value, (size_t)properties[i].bytes);
    }
    return CUDA_OK;
}

/* ---- memory ---- */

EXPORT int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    int device;
    int status = enter_device(&device);
    if (status == CUDA_OK)
        status = gpuconf_memory_info(device, free_bytes, total_bytes);
    return runtime_note(status);
}

EXPORT int cudaMalloc(void **where, size_t bytes)
{
    int device;
    *where = NULL;
    int status = enter_device(&device);
    if (status == CUDA_OK && bytes > 0)
        status = gpuconf_allocate(device, bytes, where);
    return runtime_note(status);
}

EXPORT int cudaFree(void *where)
{
    int device;
    int status = enter_device(&device); /* cudaFree(0) is the customary way to do just that */
    return runtime_note(status == CUDA_OK ? gpuconf_free(where, MEMORY_DEVICE) : status);
}

EXPORT int cudaMallocHost(void **where, size_t bytes)
{
    return runtime_note(gpuconf_allocate_host(bytes, where));
}

EXPORT int cudaFreeHost(void *where)
{
    return runtime_note(gpuconf_free(where, MEMORY_HOST));
}

/* Kinds: host to host 0, to device 1, from device 2, between devices 3, 4 by the pointers. */
EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    static const int sides[] = {0, DESTINATION_ON_DEVICE, SOURCE_ON_DEVICE,
                                DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE, 0};
    if (kind < 0 || kind > 4)
        return runtime_note(CUDA_INVALID_VALUE);
    return runtime_note(gpuconf_copy(to, from, bytes, sides[kind]));
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    (void)stream;
    return cudaMemcpy(to, from, bytes, kind);
}

EXPORT int cudaMemset(void *to, int value, size_t bytes)
{
    return runtime_note(gpuconf_fill(to, 0, (uint32_t)value & 0xff, 1, bytes, 1));
}

EXPORT int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream)
{
    (void)stream;
    return cudaMemset(to, value, bytes);
}

EXPORT int cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                             void *stream)
{
    (void)stream;
    return runtime_note(gpuconf_fill(to, pitch, (uint32_t)value & 0xff, 1, width, height));
}
