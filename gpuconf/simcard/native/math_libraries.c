/* cuBLAS, cuBLASLt, cuFFT, cuSOLVER and cuSPARSE: TensorFlow lists no GPU unless they load.
 * They refuse to make a handle, and know how to say so: a text function that is missing is
 * called all the same by TensorFlow, and crashes it.  Everything else is left out, and fails
 * with "symbol not found".  The five libraries are built from this one file. */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

static const char refusal[] = "NOT_SUPPORTED (a simulated card has no math libraries)";

enum { CUBLAS_NOT_SUPPORTED = 15, CUSOLVER_NOT_SUPPORTED = 9, CUSPARSE_NOT_SUPPORTED = 10 };

EXPORT int cublasCreate_v2(void **handle)
{
    *handle = NULL;
    return CUBLAS_NOT_SUPPORTED;
}

EXPORT const char *cublasGetStatusString(int status)
{
    (void)status;
    return refusal;
}

EXPORT const char *cublasGetStatusName(int status)
{
    (void)status;
    return "CUBLAS_STATUS_NOT_SUPPORTED";
}

EXPORT int cublasLtCreate(void **handle)
{
    *handle = NULL;
    return CUBLAS_NOT_SUPPORTED;
}

EXPORT const char *cublasLtGetStatusString(int status)
{
    (void)status;
    return refusal;
}

EXPORT const char *cublasLtGetStatusName(int status)
{
    (void)status;
    return "CUBLAS_STATUS_NOT_SUPPORTED";
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

EXPORT const char *cusparseGetErrorName(int status)
{
    (void)status;
    return "CUSPARSE_STATUS_NOT_SUPPORTED";
}

EXPORT const char *cusparseGetErrorString(int status)
{
    (void)status;
    return refusal;
}

/* ---- versions, which JAX asks for: those of CUDA 12.9 ---- */

EXPORT int cublasGetVersion_v2(void *handle, int *version)
{
    (void)handle;
    *version = 120901;
    return 0;
}

EXPORT int cublasGetProperty(int part, int *value)
{
    static const int parts[3] = {12, 9, 1};
    *value = parts[part];
    return 0;
}

EXPORT int cufftGetVersion(int *version)
{
    *version = 11401;
    return 0;
}

EXPORT int cusparseGetProperty(int part, int *value)
{
    static const int parts[3] = {12, 5, 10};
    *value = parts[part];
    return 0;
}

EXPORT int cuptiGetVersion(unsigned *version)
{
    *version = 26;
    return 0;
}
