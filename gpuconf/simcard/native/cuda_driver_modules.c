/* libcuda.so.1: modules and kernels, which load and refuse to run.
 *
 * Where gpuconf's stand-in for ptxas has "compiled" a module, its image is still the text of its PTX:
 * that says how large its constants are. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct function {
    struct function *next;
    int caller_checks;
    char name[];
};

struct global {
    struct global *next;
    void *where;
    size_t bytes;
    char name[];
};

struct module {
    struct function *functions;
    struct global *globals;
    char *text; /* of its PTX; NULL where the image is something else */
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

/* An image has no length: a text ends with a zero, and anything else is not looked into. */
static char *copy_of_text(const char *image)
{
    static const char beginning[] = "//"; /* the comment that LLVM writes first */
    return strncmp(image, beginning, sizeof beginning - 1) == 0 ? strdup(image) : NULL;
}

EXPORT int cuModuleLoadData(struct module **module, const void *image)
{
    int status = engine_load_module(module, 1);
    if (status == CUDA_OK)
        (*module)->text = copy_of_text(image);
    return status;
}
SAME(cuModuleLoadDataEx, cuModuleLoadData)
SAME(cuModuleLoadFatBinary, cuModuleLoadData)

EXPORT int cuModuleUnload(struct module *module)
{
    for (struct function *each = module->functions, *next; each != NULL; each = next) {
        next = each->next;
        free(each);
    }
    for (struct global *each = module->globals, *next; each != NULL; each = next) {
        next = each->next;
        gpuconf_free(each->where, MEMORY_DEVICE);
        free(each);
    }
    free(module->text);
    free(module);
    return CUDA_OK;
}

static struct function *new_function(const char *name, int caller_checks)
{
    size_t bytes = strlen(name) + 1;
    struct function *made = malloc(sizeof *made + bytes);
    if (made == NULL)
        return NULL;
    memcpy(made->name, name, bytes);
    made->next = NULL;
    made->caller_checks = caller_checks;
    return made;
}

EXPORT int cuModuleGetFunction(struct function **function, struct module *module, const char *name)
{
    struct function *made = new_function(name, module->callers_check);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    made->next = module->functions;
    module->functions = made;
    *function = made;
    return CUDA_OK;
}

int gpuconf_function_named(struct function **function, const char *name)
{
    *function = new_function(name, 1);
    return *function == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

/* ---- constants that XLA puts into a module ---- */

/* The bytes of `.global .align 16 .b8 NAME[BYTES]`; 0 where the text has no such line. */
static size_t bytes_of_global(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; (line = strstr(line, ".global")) != NULL; line++) {
        const char *end = line + strcspn(line, ";={\n");
        const char *found = memmem(line, (size_t)(end - line), name, length);
        size_t bytes;
        if (found != NULL && sscanf(found + length, "[%zu]", &bytes) == 1)
            return bytes;
    }
    return 0;
}

static int add_global(struct module *module, const char *name, size_t bytes)
{
    int device;
    int status = engine_current_device(&device);
    if (status != CUDA_OK)
        return status;
    size_t name_bytes = strlen(name) + 1;
    struct global *made = malloc(sizeof *made + name_bytes);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    memcpy(made->name, name, name_bytes);
    made->bytes = bytes;
    status = gpuconf_allocate(device, bytes, &made->where);
    if (status != CUDA_OK) {
        free(made);
        return status;
    }
    made->next = module->globals;
    module->globals = made;
    return CUDA_OK;
}

EXPORT int cuModuleGetGlobal_v2(void **address, size_t *bytes, struct module *module,
                                const char *name)
{
    struct global *each = module->globals;
    while (each != NULL && strcmp(each->name, name) != 0)
        each = each->next;
    if (each == NULL) {
        size_t wanted = module->text == NULL ? 0 : bytes_of_global(module->text, name);
        int status = wanted == 0 ? CUDA_NOT_FOUND : add_global(module, name, wanted);
        if (status != CUDA_OK)
            return status;
        each = module->globals;
    }
    *address = each->where;
    if (bytes != NULL)
        *bytes = each->bytes;
    return CUDA_OK;
}

/* ---- kernels ---- */

/* CU_FUNC_ATTRIBUTE_…: threads per block is 0, registers 4; the rest is 0. */
EXPORT int cuFuncGetAttribute(int *value, int attribute, struct function *function)
{
    *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;
    return engine_ready();
}

EXPORT int cuFuncSetAttribute(struct function *function, int attribute, int value)
{
    return engine_ready();
}
SAME(cuFuncSetCacheConfig, cuFuncSetAttribute)

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, struct function *function,
                                                       int block_size, size_t shared_bytes)
{
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
    return gpuconf_launch_kernel(function->name, parameters, function->caller_checks);
}

EXPORT int cuLaunchKernelEx(const void *configuration, struct function *function,
                            void **parameters, void **extra)
{
    return gpuconf_launch_kernel(function->name, NULL, function->caller_checks);
}

EXPORT int cuLaunchCooperativeKernel(struct function *function)
{
    return gpuconf_launch_kernel(function->name, NULL, function->caller_checks);
}
