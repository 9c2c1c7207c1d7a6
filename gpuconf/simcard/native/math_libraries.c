/* cuBLAS, cuBLASLt, cuFFT, cuSOLVER, cuSPARSE and CUPTI of CUDA 12 and 13: TensorFlow lists no GPU
 * unless they load, and JAX asks for their versions.  They refuse to make a handle, except cuBLAS
 * for XLA and where kernels are skipped, and know how to say so: TensorFlow calls a text
 * function even where it is missing, and crashes.  What cuBLAS does with a handle is in cublas_work.c;
 * everything else fails with "symbol not found", or is in the stand-ins that are written for a
 * PyTorch.  All are built from this one file. */
#include <stddef.h>

#include "skipping.h"

enum { CUBLAS_NOT_SUPPORTED = 15, CUSOLVER_NOT_SUPPORTED = 9, CUSPARSE_NOT_SUPPORTED = 10 };

EXPORT int cublasCreate_v2(void **handle)
{
    static char made;
    int gives = gives_handles();
    *handle = gives ? &made : NULL;
    return gives ? 0 : CUBLAS_NOT_SUPPORTED;
}
SAME(cublasLtCreate, cublasCreate_v2)

enum { HEURISTIC_BYTES = 96 }; /* cublasLtMatmulHeuristicResult_t; zeros: no workspace, success */

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                          void *d, void *preference, int wanted, void *results,
                                          int *count)
{
    *count = gives_handles() && wanted > 0;
    if (*count == 0)
        return CUBLAS_NOT_SUPPORTED;
    memset(results, 0, HEURISTIC_BYTES);
    return 0;
}

EXPORT int cusolverDnCreate(void **handle)
{
    *handle = NULL;
    return CUSOLVER_NOT_SUPPORTED;
}

EXPORT int cusparseCreate(void **handle)
{
    *handle = NULL;
    return CUSPARSE_NOT_SUPPORTED;
}

/* ---- texts, whatever the status ---- */

#define TEXT(name, text)                \
    EXPORT const char *name(int status) \
    {                                   \
        return text;                    \
    }
#define REFUSAL "NOT_SUPPORTED (a simulated GPU has no math libraries)"

TEXT(cublasGetStatusString, REFUSAL)
TEXT(cublasLtGetStatusString, REFUSAL)
TEXT(cusparseGetErrorString, REFUSAL)
TEXT(cublasGetStatusName, "CUBLAS_STATUS_NOT_SUPPORTED")
TEXT(cublasLtGetStatusName, "CUBLAS_STATUS_NOT_SUPPORTED")
TEXT(cusparseGetErrorName, "CUSPARSE_STATUS_NOT_SUPPORTED")

/* ---- versions, which JAX asks for: those of CUDA 12.9 ---- */

#define PROPERTY(name, ...)                       \
    EXPORT int name(int part, int *value)         \
    {                                             \
        static const int parts[] = {__VA_ARGS__}; \
        *value = parts[part];                     \
        return 0;                                 \
    }

PROPERTY(cublasGetProperty, 12, 9, 1)
PROPERTY(cusparseGetProperty, 12, 5, 10)

EXPORT int cublasGetVersion_v2(void *handle, int *version)
{
    *version = 120901;
    return 0;
}

EXPORT int cufftGetVersion(int *version)
{
    *version = 11401;
    return 0;
}

EXPORT int cuptiGetVersion(unsigned *version)
{
    *version = 26;
    return 0;
}
