/* libcuda.so.1: what PyTorch and JAX look up beyond what TensorFlow does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"

/* The newest of the versions of a function that this library has, as the driver gives it. */
void *gpuconf_driver_function(const char *name)
{
    char versioned[128];
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    void *found = dlsym(library, versioned);
    if (found == NULL)
        found = dlsym(library, name);
    dlclose(library);
    return found;
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version,
                               unsigned long long flags, int *result)
{
    (void)version;
    (void)flags;
    *function = gpuconf_driver_function(name);
    if (result != NULL)
        *result = *function == NULL ? 1 : 0;
    return *function == NULL ? CUDA_NOT_FOUND : CUDA_OK;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version,
                            unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

EXPORT int cuStreamWriteValue32(void *stream, unsigned long long address, unsigned value,
                                unsigned flags)
{
    (void)stream;
    (void)flags;
    return gpuconf_copy((void *)(uintptr_t)address, &value, sizeof value, DESTINATION_ON_DEVICE);
}

#define REFUSED(name)                                                                            \
    EXPORT int name(void)                                                                        \
    {                                                                                            \
        return CUDA_NOT_SUPPORTED;                                                               \
    }

REFUSED(cuMulticastAddDevice)
REFUSED(cuMulticastBindMem)
REFUSED(cuMulticastBindAddr)
REFUSED(cuMulticastCreate)
REFUSED(cuMulticastUnbind)
REFUSED(cuMulticastGetGranularity)
REFUSED(cuCtxFromGreenCtx)
REFUSED(cuDevResourceGenerateDesc)
REFUSED(cuDevSmResourceSplitByCount)
REFUSED(cuDeviceGetDevResource)
REFUSED(cuGreenCtxCreate)
REFUSED(cuGreenCtxDestroy)
REFUSED(cuGreenCtxStreamCreate)
REFUSED(cuLogsRegisterCallback)
REFUSED(cuLogsUnregisterCallback)
REFUSED(cuLinkAddData_v2)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate_v2)
REFUSED(cuModuleLoad)
REFUSED(cuTensorMapEncodeTiled)
