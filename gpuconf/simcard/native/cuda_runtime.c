/* libcudart.so.12 and .13: the part of the CUDA runtime API that TensorFlow and PyTorch call
 * themselves.  Here: versions, errors and devices. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cuda_runtime.h"
#include "engine.h"

#define RUNTIME_VERSION (CUDA_MAJOR >= 13 ? 13020 : 12050)

static _Thread_local int last_error;
static _Thread_local int chosen_device;

int runtime_note(int error)
{
    if (error != CUDA_OK)
        last_error = error;
    return error;
}

int runtime_init(void)
{
    int status = gpuconf_init();
    if (status == CUDA_OK && gpuconf_spec()->cuda_version < 1000 * CUDA_MAJOR)
        return CUDA_INSUFFICIENT_DRIVER;
    return status;
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
    return gpuconf_find_error(error)->runtime_name;
}

EXPORT const char *cudaGetErrorString(int error)
{
    return gpuconf_find_error(error)->text;
}

/* ---- devices ---- */

/* The device of the thread's driver context if it has one, as the real runtime does. */
static int current_device(void)
{
    struct context *context = gpuconf_current_context();
    return context == NULL ? chosen_device : gpuconf_context_device(context);
}

/* The runtime makes a device's primary context when it first needs it. */
int runtime_enter_device(int *device)
{
    int status = runtime_init();
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

int runtime_check_device(int device)
{
    int status = runtime_init();
    if (status != CUDA_OK)
        return status;
    return device >= 0 && device < gpuconf_device_count() ? CUDA_OK : CUDA_INVALID_DEVICE;
}

EXPORT int cudaGetDeviceCount(int *count)
{
    int status = runtime_init();
    *count = status == CUDA_OK ? gpuconf_device_count() : 0;
    return runtime_note(status);
}

EXPORT int cudaGetDevice(int *device)
{
    int status = runtime_init();
    *device = current_device();
    return runtime_note(status);
}

/* Since CUDA 12 this makes the primary context at once. */
EXPORT int cudaSetDevice(int device)
{
    int status = runtime_check_device(device);
    if (status != CUDA_OK)
        return runtime_note(status);
    struct context *current = gpuconf_current_context();
    chosen_device = device;
    if (current == NULL || gpuconf_context_device(current) != device) {
        gpuconf_set_current_context(NULL);
        status = runtime_enter_device(&device);
    }
    return runtime_note(status);
}

EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    int status = runtime_check_device(device);
    if (status == CUDA_OK)
        *value = gpuconf_device_attribute(attribute, device);
    return runtime_note(status);
}

EXPORT int cudaDeviceSynchronize(void)
{
    return runtime_note(gpuconf_fault());
}

EXPORT int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    return CUDA_OK;
}

EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return runtime_note(CUDA_PEER_ACCESS_UNSUPPORTED);
}

EXPORT int cudaDeviceGetPCIBusId(char *text, int room, int device)
{
    char bus_id[13];
    int status = runtime_check_device(device);
    if (status != CUDA_OK)
        return runtime_note(status);
    gpuconf_device_bus_id(device, bus_id);
    snprintf(text, (size_t)room, "%s", bus_id);
    return CUDA_OK;
}

/* ---- the driver's functions by name ---- */

EXPORT int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                   int *result)
{
    *function = gpuconf_driver_function(name);
    if (result != NULL)
        *result = *function == NULL ? 1 : 0; /* cudaDriverEntryPointSymbolNotFound */
    return *function == NULL && result == NULL ? runtime_note(CUDA_NOT_FOUND) : CUDA_OK;
}

EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                            unsigned long long flags, int *result)
{
    return cudaGetDriverEntryPoint(name, function, flags, result);
}
