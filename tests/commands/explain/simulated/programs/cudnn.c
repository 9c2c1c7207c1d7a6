/* A libcudnn whose handle is refused for want of device memory, as by a cuDNN that finds no room
 * beside an allocator that took the whole card.  The status is ours; the log is TensorFlow's. */
#include <stddef.h>

#if CUDNN_MAJOR >= 9
#define VERSION 91002
#define REFUSED 4003
#define REFUSED_NAME "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"
#else
#define VERSION 8907
#define REFUSED 2
#define REFUSED_NAME "CUDNN_STATUS_ALLOC_FAILED"
#endif

size_t cudnnGetVersion(void)
{
    return VERSION;
}

size_t cudnnGetCudartVersion(void)
{
    return 12050;
}

int cudnnGetProperty(int part, int *value)
{
    const int unit = CUDNN_MAJOR >= 9 ? 10000 : 1000;
    const int parts[3] = {VERSION / unit, VERSION % unit / 100, VERSION % 100};
    *value = parts[part];
    return 0;
}

const char *cudnnGetErrorString(int status)
{
    return status == 0 ? "CUDNN_STATUS_SUCCESS" : REFUSED_NAME;
}

int cudnnCreate(void **handle)
{
    *handle = NULL;
    return REFUSED;
}

int cudnnDestroy(void *handle)
{
    (void)handle;
    return 0;
}
