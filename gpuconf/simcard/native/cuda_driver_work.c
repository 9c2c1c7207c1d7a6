/* libcuda.so.1: the work of a stream: copies, fills and kernels. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "engine.h"

typedef unsigned long long device_pointer;

#define TO_POINTER(address) ((void *)(uintptr_t)(address))

/* ---- copies ---- */

EXPORT int cuMemcpyHtoD_v2(device_pointer to, const void *from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), from, bytes, DESTINATION_ON_DEVICE);
}

EXPORT int cuMemcpyDtoH_v2(void *to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(to, TO_POINTER(from), bytes, SOURCE_ON_DEVICE);
}

EXPORT int cuMemcpyDtoD_v2(device_pointer to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), TO_POINTER(from), bytes,
                        DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE);
}

EXPORT int cuMemcpy(device_pointer to, device_pointer from, size_t bytes)
{
    return gpuconf_copy(TO_POINTER(to), TO_POINTER(from), bytes, 0);
}

EXPORT int cuMemcpyHtoDAsync_v2(device_pointer to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpyHtoD_v2(to, from, bytes);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, device_pointer from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpyDtoH_v2(to, from, bytes);
}

EXPORT int cuMemcpyDtoDAsync_v2(device_pointer to, device_pointer from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpyDtoD_v2(to, from, bytes);
}

EXPORT int cuMemcpyAsync(device_pointer to, device_pointer from, size_t bytes, void *stream)
{
    (void)stream;
    return cuMemcpy(to, from, bytes);
}

EXPORT int cuMemcpyPeerAsync(device_pointer to, struct context *to_context, device_pointer from,
                             struct context *from_context, size_t bytes, void *stream)
{
    (void)to_context;
    (void)from_context;
    return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

/* ---- fills ---- */

EXPORT int cuMemsetD8_v2(device_pointer to, unsigned char value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 1, count, 1);
}

EXPORT int cuMemsetD16_v2(device_pointer to, unsigned short value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 2, count, 1);
}

EXPORT int cuMemsetD32_v2(device_pointer to, unsigned value, size_t count)
{
    return gpuconf_fill(TO_POINTER(to), 0, value, 4, count, 1);
}

EXPORT int cuMemsetD8Async(device_pointer to, unsigned char value, size_t count, void *stream)
{
    (void)stream;
    return cuMemsetD8_v2(to, value, count);
}

EXPORT int cuMemsetD16Async(device_pointer to, unsigned short value, size_t count, void *stream)
{
    (void)stream;
    return cuMemsetD16_v2(to, value, count);
}

EXPORT int cuMemsetD32Async(device_pointer to, unsigned value, size_t count, void *stream)
{
    (void)stream;
    return cuMemsetD32_v2(to, value, count);
}

EXPORT int cuMemsetD2D8Async(device_pointer to, size_t pitch, unsigned char value, size_t width,
                             size_t height, void *stream)
{
    (void)stream;
    return gpuconf_fill(TO_POINTER(to), pitch, value, 1, width, height);
}

EXPORT int cuMemsetD2D32Async(device_pointer to, size_t pitch, unsigned value, size_t width,
                              size_t height, void *stream)
{
    (void)stream;
    return gpuconf_fill(TO_POINTER(to), pitch, value, 4, width, height);
}

/* ---- modules and kernels: they load, and refuse to run ---- */

struct function {
    struct function *next;
    int caller_checks;
    char name[];
};

struct module {
    struct function *functions;
    int callers_check;
};

int engine_load_module(struct module **module, int callers_check)
{
    *module = calloc(1, sizeof **module);
    if (*module == NULL)
        return CUDA_OUT_OF_MEMORY;
    (*module)->callers_check = callers_check;
    return engine_ready();
}

EXPORT int cuModuleLoadData(struct module **module, const void *image)
{
    (void)image;
    return engine_load_module(module, 1);
}

EXPORT int cuModuleLoadDataEx(struct module **module, const void *image, unsigned count,
                              int *options, void **values)
{
    (void)count;
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

EXPORT int cuModuleLoadFatBinary(struct module **module, const void *image)
{
    return cuModuleLoadData(module, image);
}

EXPORT int cuModuleUnload(struct module *module)
{
    for (struct function *each = module->functions; each != NULL;) {
        struct function *next = each->next;
        free(each);
        each = next;
    }
    free(module);
    return CUDA_OK;
}

EXPORT int cuModuleGetFunction(struct function **function, struct module *module, const char *name)
{
    size_t bytes = strlen(name) + 1;
    struct function *made = malloc(sizeof *made + bytes);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    memcpy(made->name, name, bytes);
    made->caller_checks = module->callers_check;
    made->next = module->functions;
    module->functions = made;
    *function = made;
    return CUDA_OK;
}

EXPORT int cuModuleGetGlobal_v2(device_pointer *address, size_t *bytes, struct module *module,
                                const char *name)
{
    (void)address;
    (void)bytes;
    (void)module;
    (void)name;
    return CUDA_NOT_FOUND;
}

/* CU_FUNC_ATTRIBUTE_…: threads per block is 0, registers 4; the rest is 0. */
EXPORT int cuFuncGetAttribute(int *value, int attribute, struct function *function)
{
    (void)function;
    *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;
    return engine_ready();
}

EXPORT int cuFuncSetAttribute(struct function *function, int attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    return engine_ready();
}

EXPORT int cuFuncSetCacheConfig(struct function *function, int config)
{
    (void)function;
    (void)config;
    return engine_ready();
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, struct function *function,
                                                       int block_size, size_t shared_bytes)
{
    (void)function;
    (void)block_size;
    (void)shared_bytes;
    *blocks = 1;
    return engine_ready();
}

EXPORT int cuOccupancyMaxPotentialBlockSize(int *smallest_grid, int *block_size)
{
    *smallest_grid = 1;
    *block_size = 1024;
    return engine_ready();
}

EXPORT int cuLaunchKernel(struct function *function, unsigned grid_x, unsigned grid_y,
                          unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)stream, (void)extra;
    return gpuconf_launch_kernel(function->name, parameters, function->caller_checks);
}

EXPORT int cuLaunchKernelEx(const void *configuration, struct function *function,
                            void **parameters, void **extra)
{
    (void)configuration, (void)parameters, (void)extra;
    return gpuconf_launch_kernel(function->name, NULL, function->caller_checks);
}

EXPORT int cuLaunchCooperativeKernel(struct function *function)
{
    return gpuconf_launch_kernel(function->name, NULL, function->caller_checks);
}
