/* libcuda.so.1: its functions by their names, as the runtime and PyTorch ask for them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "engine.h"

enum { SYMBOL_FOUND = 0, SYMBOL_NOT_FOUND = 1 }; /* CU_GET_PROC_ADDRESS_… */

static void *newest_version(void *library, const char *name)
{
    char versioned[128];
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    void *found = dlsym(library, versioned);
    return found == NULL ? dlsym(library, name) : found;
}

void *gpuconf_driver_function(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    void *found = newest_version(library, name);
    dlclose(library);
    return found;
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version,
                               unsigned long long flags, int *result)
{
    *function = gpuconf_driver_function(name);
    if (result != NULL)
        *result = *function == NULL ? SYMBOL_NOT_FOUND : SYMBOL_FOUND;
    return *function == NULL ? CUDA_NOT_FOUND : CUDA_OK;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version,
                            unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
