/* Functions of NVIDIA's libraries that a simulated GPU does not have: those that a wheel is not
 * loaded without (gpuconf/simcard/refusals.py lists them), and those of cuBLAS and cuDNN that XLA
 * calls.  Each says its name when first called and returns an error of its library. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "skipping.h"

/* CUDNN_STATUS_NOT_SUPPORTED had another number before cuDNN 9. */
#if defined CUDNN_VERSION && CUDNN_VERSION < 90000
#define CUDNN_NOT_SUPPORTED 9
#else
#define CUDNN_NOT_SUPPORTED 3000
#endif

static const struct {
    const char *beginning;
    int status;
} errors[] = {
    {"cublas", 15},      /* CUBLAS_STATUS_NOT_SUPPORTED */
    {"cusolver", 9},     /* CUSOLVER_STATUS_NOT_SUPPORTED */
    {"cusparse", 10},    /* CUSPARSE_STATUS_NOT_SUPPORTED, cuSPARSELt's too */
    {"cufft", 16},       /* CUFFT_NOT_SUPPORTED */
    {"cudnn", CUDNN_NOT_SUPPORTED},
    {"cupti", 27},       /* CUPTI_ERROR_NOT_SUPPORTED */
    {"curand", 203},     /* CURAND_STATUS_INITIALIZATION_FAILED; it has no NOT_SUPPORTED */
    {"cuFile", 5001},    /* CU_FILE_DRIVER_NOT_INITIALIZED */
    {"cu", 801},         /* CUDA's NOT_SUPPORTED, of the driver and of the runtime */
    {"nccl", 1},         /* ncclUnhandledCudaError */
    {"nvrtc", 11},       /* NVRTC_ERROR_INTERNAL_ERROR */
    {"", 1},
};

/* The functions that return a text, which the caller prints. */
static int returns_text(const char *name)
{
    static const char *const texts[] = {"ErrorString", "ErrorName", "StatusString", "StatusName",
                                        "ncclGetLastError"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strstr(name, texts[i]) != NULL)
            return 1;
    return 0;
}

static int begins_with(const char *name, const char *beginning)
{
    return strncmp(name, beginning, strlen(beginning)) == 0;
}

/* Products and layers that are skipped as kernels are (math_libraries.c and cublas_work.c have
 * what must be more than success). */
static int skips(const char *name)
{
    return (begins_with(name, "cublas") || begins_with(name, "cudnn")) && work_is_skipped();
}

static intptr_t refuse(const char *name, _Atomic int *said)
{
    if (returns_text(name))
        return (intptr_t) "not supported (by a simulated GPU)";
    if (skips(name))
        return 0;
    if (!atomic_exchange(said, 1))
        fprintf(stderr, "gpuconf simulated GPU: %s is not supported and returns an error\n", name);
    const char *bare = name + strspn(name, "_");
    size_t i = 0;
    while (!begins_with(bare, errors[i].beginning))
        i++;
    return errors[i].status;
}

/* Arguments are not looked at. */
#define REFUSE(name)                                           \
    __attribute__((visibility("default"))) intptr_t name(void) \
    {                                                          \
        static _Atomic int said;                               \
        return refuse(#name, &said);                           \
    }
