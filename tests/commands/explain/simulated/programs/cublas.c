/* A libcublas whose handle is refused, as by a cuBLAS that finds no room for its workspace: such a
 * one says that it is not initialized.  The status and its text are ours; the log is TensorFlow's. */
#include <stddef.h>

enum { NOT_INITIALIZED = 1 };

int cublasCreate_v2(void **handle)
{
    *handle = NULL;
    return NOT_INITIALIZED;
}

const char *cublasGetStatusString(int status)
{
    return status == 0 ? "success" : "the library was not initialized";
}

const char *cublasGetStatusName(int status)
{
    return status == 0 ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_INITIALIZED";
}
