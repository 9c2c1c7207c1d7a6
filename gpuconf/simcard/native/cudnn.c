/* libcudnn.so.8 and .so.9: TensorFlow lists no GPU unless the library loads.  It says its
 * version and gives handles.  What XLA and TensorFlow's kernels call is in the other
 * cudnn_*.c; the rest is missing. */
#include <stddef.h>

#include "skipping.h"

#ifndef CUDNN_VERSION
#error "build with -DCUDNN_VERSION=…"
#endif
#define NOT_SUPPORTED (CUDNN_VERSION >= 90000 ? 3000 : 9)

EXPORT size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

EXPORT size_t cudnnGetCudartVersion(void)
{
    return 12050;
}

EXPORT int cudnnGetProperty(int part, int *value)
{
    static const int unit = CUDNN_VERSION >= 90000 ? 10000 : 1000;
    const int parts[3] = {CUDNN_VERSION / unit, CUDNN_VERSION % unit / 100, CUDNN_VERSION % 100};
    if (part < 0 || part > 2)
        return NOT_SUPPORTED;
    *value = parts[part];
    return 0;
}

EXPORT const char *cudnnGetErrorString(int status)
{
    return status == 0 ? "CUDNN_STATUS_SUCCESS"
                       : "CUDNN_STATUS_NOT_SUPPORTED (a simulated GPU has no cuDNN)";
}

/* XLA compiles nothing without a handle, so JAX gets one from the cuDNN that it asks for, and
 * TensorFlow where its XLA is wanted or kernels are skipped; cudnn_backend.c has what XLA calls with it. */
EXPORT int cudnnCreate(void **handle)
{
    static char made;
    int gives = CUDNN_VERSION >= 90000 || gives_handles();
    *handle = gives ? &made : NULL;
    return gives ? 0 : NOT_SUPPORTED;
}

EXPORT int cudnnDestroy(void *handle)
{
    return handle == NULL ? NOT_SUPPORTED : 0;
}

EXPORT int cudnnSetStream(void *handle, void *stream)
{
    return handle == NULL ? NOT_SUPPORTED : 0;
}
