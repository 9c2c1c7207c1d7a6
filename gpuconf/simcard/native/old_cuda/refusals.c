/* The math libraries of CUDA 8 to 10 and cuDNN 6 and 7: every function that an old TensorFlow must
 * find before it can be loaded (names.txt).  None computes.  Each returns an error that its library
 * has and, when first called, says its name; one that passed in silence would be a wrong number. */
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    CUBLAS_NOT_SUPPORTED = 15,
    CUDNN_NOT_SUPPORTED = 9,
    CUFFT_NOT_SUPPORTED = 16,
    CURAND_INITIALIZATION_FAILED = 203, /* cuRAND has no NOT_SUPPORTED */
    CUSOLVER_NOT_SUPPORTED = 9,
};

static int refuse(const char *name, int status, int *said)
{
    if (!*said)
        fprintf(stderr, "gpuconf simulated GPU: %s is not supported and returns an error\n", name);
    *said = 1;
    return status;
}

/* Arguments are not looked at. */
#define REFUSE(name, status)                 \
    EXPORT int name(void)                    \
    {                                        \
        static int said;                     \
        return refuse(#name, status, &said); \
    }

#define REFUSE_cublas(name) REFUSE(name, CUBLAS_NOT_SUPPORTED)
#define REFUSE_cudnn(name) REFUSE(name, CUDNN_NOT_SUPPORTED)
#define REFUSE_cufft(name) REFUSE(name, CUFFT_NOT_SUPPORTED)
#define REFUSE_curand(name) REFUSE(name, CURAND_INITIALIZATION_FAILED)
#define REFUSE_cusolver(name) REFUSE(name, CUSOLVER_NOT_SUPPORTED)

#include "refused_names.h" /* written from names.txt */
