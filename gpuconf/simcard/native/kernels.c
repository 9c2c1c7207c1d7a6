#define _GNU_SOURCE
#include "engine.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS_VARIABLE "GPUCONF_SIMCARD_KERNELS"
#define BRIDGE_VARIABLE "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
#define LONGEST_NAME 300 /* Eigen's names run to kilobytes; their beginning says enough */

typedef char *(*demangle_function)(const char *, char *, size_t *, int *);

/* The default is to stop, right at the launch.  As an error it would show only where a number is
 * next read from the card, and a program that reads none would seem to have worked. */
static _Atomic int fault;

int gpuconf_fault(void)
{
    return atomic_load(&fault);
}

static void print_name(const char *mangled)
{
    /* libstdc++ is in the process wherever TensorFlow, PyTorch or JAX is; this library itself needs no C++. */
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = library == NULL ? NULL : dlsym(library, "__cxa_demangle");
    demangle_function demangle;
    memcpy(&demangle, &symbol, sizeof demangle); /* ISO C has no cast from data to function */
    int status = -1;
    char *name = demangle == NULL ? NULL : demangle(mangled, NULL, NULL, &status);
    fprintf(stderr, "gpuconf simulated GPU: the program launched the GPU kernel\n  %.*s\n",
            LONGEST_NAME, status == 0 ? name : mangled);
    free(name);
}

static int has_in_its_name(struct dl_phdr_info *library, size_t size, void *part)
{
    return strstr(library->dlpi_name, part) != NULL;
}

static int is_loaded(const char *part)
{
    return dl_iterate_phdr(has_in_its_name, (void *)part);
}

/* What to do instead, for the framework whose kernel it is. */
static const char *advice(const char *name)
{
    if (strncmp(name, "_ZN2at", 6) == 0)
        return "A simulated GPU has memory but computes nothing: the result would be wrong.\n"
               "PyTorch's empty, zeros, ones, full, fill_ and copies work. Compute on the CPU:\n"
               "tensor.cpu(), or device='cpu'.";
    if (is_loaded("xla_cuda_plugin") && !is_loaded("libtensorflow_framework"))
        return "A simulated GPU has memory but computes nothing: the result would be wrong.\n"
               "JAX's device_put and numpy.asarray work. Compute on the CPU:\n"
               "with jax.default_device(jax.devices('cpu')[0]):";
    if (getenv(BRIDGE_VARIABLE) != NULL)
        return "No CPU kernel stands in for it on a simulated GPU, and without one the\n"
               "result would be wrong: run that operation under tf.device('CPU').";
    return "A simulated GPU without the kernel bridge has memory but computes nothing:\n"
           "the result would be wrong. Constants, variables, copies, tf.zeros, tf.ones\n"
           "and tf.fill work. TensorFlow computes with the bridge, which\n"
           "python -m gpuconf.simcard run adds.";
}

/* The kernel bridge lets XLA run for its memory alone, and computes the numbers itself. */
static _Thread_local int thread_skips;

int gpuconf_skip_work(int skips)
{
    int before = thread_skips;
    thread_skips = skips;
    return before;
}

int engine_thread_skips(void)
{
    return thread_skips;
}

static int is_skip(const char *mode)
{
    return mode != NULL && strcmp(mode, "skip") == 0;
}

int gpuconf_work_is_skipped(void)
{
    return thread_skips || is_skip(getenv(KERNELS_VARIABLE));
}

/* For measuring memory alone: who asks for it knows that no number means anything. */
static int skips(const char *mode)
{
    static _Atomic int said;
    if (!is_skip(mode))
        return 0;
    if (!atomic_exchange(&said, 1))
        fprintf(stderr, "gpuconf simulated GPU: " KERNELS_VARIABLE "=skip: no kernel runs, and "
                        "every computed number is garbage\n");
    return 1;
}

int gpuconf_launch_kernel(const char *name, void **arguments, int caller_checks)
{
    if (thread_skips)
        return CUDA_OK;
    if (arguments != NULL && engine_fill_by_kernel(name, arguments))
        return CUDA_OK;
    const char *mode = getenv(KERNELS_VARIABLE);
    if (skips(mode))
        return CUDA_OK;
    int as_error = mode != NULL && strcmp(mode, "error") == 0;
    int told_before = caller_checks ? 0 : atomic_exchange(&fault, CUDA_LAUNCH_FAILED);
    if (!told_before) {
        print_name(name);
        fprintf(stderr, "%s  %s\n", advice(name),
                !as_error       ? "Stopping here."
                : caller_checks ? "The launch returns an error."
                                : "No number can be read from the GPU from here on.");
    }
    if (!as_error)
        abort();
    return caller_checks ? CUDA_LAUNCH_FAILED : CUDA_OK;
}
