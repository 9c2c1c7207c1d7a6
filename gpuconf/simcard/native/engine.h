/* What libcuda.so.1 and libcudart.so.12 share: the simulated GPUs of this process.
 *
 * The driver library holds it all and the runtime library calls it by these names, never by
 * cu… names: TensorFlow itself defines those, and the dynamic linker may find them first.
 * Errors are CUDA's numbers, which the driver and the runtime API share.
 */
#ifndef GPUCONF_SIMCARD_ENGINE_H
#define GPUCONF_SIMCARD_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "card.h"

#define EXPORT __attribute__((visibility("default")))

enum cuda_error {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_FOUND = 500,
    CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_NOT_SUPPORTED = 801,
};

/* CU_MEMORYTYPE_… */
enum memory_type { MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

enum { MAPPED = 2 };

struct context; /* a primary context: one per GPU and process */

struct allocation {
    char *base;
    size_t bytes;
    int device; /* as CUDA numbers them: an index into the visible ones */
    enum memory_type type;
    int owned; /* 0: host memory that was only registered; MAPPED: of virtual_memory.c */
};

/* ---- devices.c ---- */
EXPORT int gpuconf_init(void); /* cuInit; idempotent */
int engine_ready(void);        /* CUDA_OK, or why no call can work now */
EXPORT int gpuconf_device_count(void);
EXPORT uint32_t gpuconf_device_gpu(int device); /* the card's own number of a visible device */
EXPORT void gpuconf_device_uuid(int device, unsigned char uuid[16]);
EXPORT const struct card_spec *gpuconf_spec(void);
EXPORT struct card_file *gpuconf_card(void);
EXPORT int gpuconf_device_attribute(int attribute, int device);

/* ---- context.c ---- */
EXPORT int gpuconf_retain_primary(int device, struct context **context);
int engine_release_primary(int device);
int engine_reset_primary(int device);
void engine_primary_state(int device, unsigned *flags, int *active);
int engine_set_primary_flags(int device, unsigned flags);
EXPORT struct context *gpuconf_current_context(void);
EXPORT void gpuconf_set_current_context(struct context *context);
int engine_push_context(struct context *context);
int engine_pop_context(struct context **context);
EXPORT int gpuconf_context_device(const struct context *context);
struct context *engine_primary(int device); /* NULL unless retained */
int engine_current_device(int *device);     /* CUDA_INVALID_CONTEXT if the thread has none */

/* ---- memory.c ---- */
EXPORT int gpuconf_memory_info(int device, size_t *free_bytes, size_t *total_bytes);
EXPORT int gpuconf_allocate(int device, size_t bytes, void **where);
EXPORT int gpuconf_free(void *where, enum memory_type type);
EXPORT int gpuconf_allocate_host(size_t bytes, void **where);
EXPORT int engine_register_host(void *where, size_t bytes);
EXPORT int engine_unregister_host(void *where);
void engine_free_device(int device); /* everything left on it */
/* The allocation that holds [where, where + bytes); CUDA_INVALID_VALUE if there is none. */
EXPORT int gpuconf_find(const void *where, size_t bytes, struct allocation *found);
/* Copies and fills; the sides named are checked to be device memory. */
enum { DESTINATION_ON_DEVICE = 1, SOURCE_ON_DEVICE = 2 };
EXPORT int gpuconf_copy(void *to, const void *from, size_t bytes, int sides);
EXPORT int gpuconf_fill(void *to, size_t pitch, uint32_t value, size_t element_bytes,
                        size_t width, size_t height);

/* ---- virtual_memory.c ---- */
#define VIRTUAL_MEMORY_GRANULARITY ((size_t)2 << 20)
struct physical;
int engine_physical_create(int device, size_t bytes, struct physical **made);
int engine_physical_release(struct physical *physical);
int engine_physical_retain(const void *where, struct physical **found);
int engine_physical_device(const struct physical *physical);
int engine_reserve_addresses(size_t bytes, size_t alignment, void **where);
int engine_free_addresses(void *where, size_t bytes);
int engine_map(void *where, size_t bytes, size_t offset, struct physical *physical);
int engine_unmap(void *where, size_t bytes);
/* Told to memory.c, so that copies find it. */
int gpuconf_remember_mapped(int device, void *where, size_t bytes);
void gpuconf_forget_mapped(void *where);

/* ---- streams.c ---- */
enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };
EXPORT int gpuconf_event_create(void **event);
EXPORT int gpuconf_event_record(void *event);
EXPORT int gpuconf_event_elapsed(float *milliseconds, void *start, void *end);
EXPORT void gpuconf_handle_free(void *handle);
EXPORT int gpuconf_stream_priority(const void *stream);
EXPORT int gpuconf_stream_create(void **stream, unsigned flags, int priority);

/* ---- cuda_driver_more.c ---- */
EXPORT void *gpuconf_driver_function(const char *name);

/* ---- kernels.c ---- */
/* Do what a fill would (eigen_fill.c); refuse any other kernel, loudly.  `arguments` may be NULL.
 * If it returns at all from a refusal, a caller that checks gets CUDA_LAUNCH_FAILED.  The runtime's
 * callers do not (Eigen) or abort (TF_CHECK_OK): they get CUDA_OK and there is a fault, as when a
 * real kernel crashes after its launch. */
EXPORT int gpuconf_launch_kernel(const char *name, void **arguments, int caller_checks);
/* CUDA_LAUNCH_FAILED once there is a fault: every copy from the device and every wait fails from
 * then on, so that no number from a kernel's missing result can reach the program.  (A real
 * fault fails every call; TensorFlow aborts on some, and a Python error says more.) */
EXPORT int gpuconf_fault(void);

/* ---- cuda_driver_work.c ---- */
struct module; /* what kernels are loaded in */
/* Whether those who launch its kernels look at what the launch returns. */
int engine_load_module(struct module **module, int callers_check);

#endif
