/* libcuda.so.1: start, errors and devices of the CUDA driver API.  What is left out here looks to a
 * program like a driver too old for it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* For the kernel bridge, which knows by it that device memory is host memory here: whether all of
 * these bytes are a device's. */
EXPORT int gpuconf_is_device_memory(const void *where, size_t bytes)
{
    struct allocation found;
    return gpuconf_find(where, bytes, &found) == CUDA_OK && found.type == MEMORY_DEVICE;
}

/* ---- start and version ---- */

EXPORT int cuInit(unsigned flags)
{
    return flags == 0 ? gpuconf_init() : CUDA_INVALID_VALUE;
}

EXPORT int cuDriverGetVersion(int *version)
{
    struct card_file *card = card_of_environment();
    if (card == NULL)
        return CUDA_NO_DEVICE;
    *version = (int)card_get_spec(card)->cuda_version;
    return CUDA_OK;
}

static const struct gpuconf_error errors[] = {
    {CUDA_OK, "CUDA_SUCCESS", "cudaSuccess", "no error"},
    {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue", "invalid argument"},
    {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "out of memory"},
    {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "cudaErrorInitializationError",
     "initialization error"},
    {CUDA_INSUFFICIENT_DRIVER, NULL, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice",
     "no CUDA-capable device is detected"},
    {CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "cudaErrorInvalidDevice",
     "invalid device ordinal"},
    {CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "cudaErrorDeviceUninitialized",
     "invalid device context"},
    {CUDA_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices"},
    {CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "cudaErrorSymbolNotFound", "named symbol not found"},
    {CUDA_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure",
     "unspecified launch failure (a simulated GPU runs no kernels)"},
    {CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported",
     "operation not supported (by a simulated GPU)"},
};

const struct gpuconf_error *gpuconf_find_error(int error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return &errors[i];
    static const struct gpuconf_error unknown = {0, NULL, "cudaErrorUnknown", "unknown error"};
    return &unknown;
}

EXPORT int cuGetErrorName(int error, const char **name)
{
    *name = gpuconf_find_error(error)->driver_name;
    return *name == NULL ? CUDA_INVALID_VALUE : CUDA_OK;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
    const struct gpuconf_error *found = gpuconf_find_error(error);
    *text = found->driver_name == NULL ? NULL : found->text;
    return *text == NULL ? CUDA_INVALID_VALUE : CUDA_OK;
}

/* ---- devices ---- */

int engine_check_device(int device)
{
    int status = engine_ready();
    if (status != CUDA_OK)
        return status;
    return device >= 0 && device < gpuconf_device_count() ? CUDA_OK : CUDA_INVALID_DEVICE;
}

EXPORT int cuDeviceGetCount(int *count)
{
    *count = gpuconf_device_count();
    return engine_ready();
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return engine_check_device(ordinal);
}

EXPORT int cuDeviceGetName(char *name, int room, int device)
{
    int status = engine_check_device(device);
    if (status == CUDA_OK)
        snprintf(name, (size_t)room, "%s", gpuconf_spec()->name);
    return status;
}

EXPORT int cuDeviceGetUuid(unsigned char uuid[16], int device)
{
    int status = engine_check_device(device);
    if (status == CUDA_OK)
        gpuconf_device_uuid(device, uuid);
    return status;
}
SAME(cuDeviceGetUuid_v2, cuDeviceGetUuid)

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    /* XLA recomputes results rather than exceed this.  A program that measures memory may name another
     * total than that of the card, which has room for any step. */
    const char *named = getenv("GPUCONF_SIMCARD_TOTAL");
    int status = engine_check_device(device);
    if (status == CUDA_OK)
        *bytes = named == NULL ? gpuconf_spec()->total_bytes : strtoull(named, NULL, 10);
    return status;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int status = engine_check_device(device);
    if (status == CUDA_OK)
        *value = gpuconf_device_attribute(attribute, device);
    return status;
}

EXPORT int cuDeviceComputeCapability(int *major, int *minor, int device)
{
    int status = engine_check_device(device);
    if (status != CUDA_OK)
        return status;
    *major = (int)gpuconf_spec()->major;
    *minor = (int)gpuconf_spec()->minor;
    return CUDA_OK;
}

EXPORT int cuDeviceGetPCIBusId(char *text, int room, int device)
{
    char bus_id[13];
    int status = engine_check_device(device);
    if (status != CUDA_OK)
        return status;
    card_pci_bus_id(gpuconf_device_gpu(device), bus_id);
    snprintf(text, (size_t)room, "%s", bus_id);
    return CUDA_OK;
}

EXPORT int cuDeviceGetByPCIBusId(int *device, const char *text)
{
    for (int i = 0; i < gpuconf_device_count(); i++) {
        char bus_id[13];
        card_pci_bus_id(gpuconf_device_gpu(i), bus_id);
        if (strcmp(bus_id, text) != 0)
            continue;
        *device = i;
        return engine_ready();
    }
    return CUDA_INVALID_DEVICE;
}

/* GeForce cards have no peer access either. */
EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    int status = engine_check_device(device);
    return status == CUDA_OK ? engine_check_device(peer) : status;
}

EXPORT int cuCtxEnablePeerAccess(struct context *peer, unsigned flags)
{
    return CUDA_PEER_ACCESS_UNSUPPORTED;
}
