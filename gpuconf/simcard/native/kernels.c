#define _GNU_SOURCE
#include "engine.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS_VARIABLE "GPUCONF_SIMCARD_KERNELS"
#define LONGEST_NAME 300 /* Eigen's names run to kilobytes; their beginning says enough */

typedef char *(*demangle_function)(const char *, char *, size_t *, int *);

static _Atomic int fault;

int gpuconf_fault(void)
{
    return atomic_load(&fault);
}

static void print_name(const char *mangled)
{
    /* libstdc++ is in the process wherever TensorFlow is; this library itself needs no C++. */
    void *symbol = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    demangle_function demangle;
    memcpy(&demangle, &symbol, sizeof demangle); /* ISO C has no cast from data to function */
    int status = -1;
    char *name = demangle == NULL ? NULL : demangle(mangled, NULL, NULL, &status);
    fprintf(stderr, "gpuconf simulated card: the program launched the GPU kernel\n  %.*s\n",
            LONGEST_NAME, status == 0 ? name : mangled);
    free(name);
}

int gpuconf_refuse_kernel(const char *name)
{
    const char *mode = getenv(KERNELS_VARIABLE);
    int as_error = mode != NULL && strcmp(mode, "error") == 0;
    if (atomic_exchange(&fault, CUDA_LAUNCH_FAILED) == 0 || !as_error) {
        print_name(name);
        fprintf(stderr,
                "A simulated card has memory but computes nothing: the result would be wrong.\n"
                "Constants, variables, copies, tf.zeros, tf.ones and tf.fill work; run other\n"
                "operations on the CPU (with tf.device('CPU')).  %s\n",
                as_error ? "Every CUDA call fails from here on."
                         : "Stopping; with " KERNELS_VARIABLE "=error CUDA calls fail instead.");
    }
    if (!as_error)
        abort();
    return CUDA_LAUNCH_FAILED;
}
