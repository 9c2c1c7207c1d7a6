/* What libcuda.so.1 and libcudart.so.12 share: the simulated GPUs of this process.
 *
 * The driver library holds it all and the runtime library calls it by these names, never by
 * cu… names: TensorFlow itself defines those, and the dynamic linker may find them first.
 * Errors are CUDA's numbers, which the driver and the runtime API share.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "card.h"
#include "exports.h"
#include "ranges.h"

enum cuda_error {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_INSUFFICIENT_DRIVER = 35, /* the runtime's alone */
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

struct gpuconf_error {
    int error;
    const char *driver_name; /* NULL if only the runtime has it */
    const char *runtime_name, *text;
};

/* CU_MEMORYTYPE_… */
enum memory_type { MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

/* Whose memory it is: the program's own that was only registered, CUDA's, or a mapping of
 * virtual_memory.c. */
enum ownership { REGISTERED, ALLOCATED, MAPPED };

struct context; /* a primary context: one per GPU and process */

struct physical; /* of virtual_memory.c */

struct allocation {
    struct range range;
    int device; /* as CUDA numbers them: an index into the visible ones */
    enum memory_type type;
    enum ownership ownership;
    struct physical *physical; /* what is MAPPED */
};

/* ---- cuda_driver.c ---- */
int engine_check_device(int device); /* CUDA_INVALID_DEVICE, or why no call can work now */
EXPORT const struct gpuconf_error *gpuconf_find_error(int error); /* also one for an unknown number */

/* ---- devices.c ---- */
EXPORT int gpuconf_init(void); /* cuInit; idempotent */
int engine_ready(void);        /* CUDA_OK, or why no call can work now */
EXPORT int gpuconf_device_count(void);
EXPORT uint32_t gpuconf_device_gpu(int device); /* the card's own number of a visible device */
EXPORT void gpuconf_device_uuid(int device, unsigned char uuid[16]);
EXPORT void gpuconf_device_bus_id(int device, char bus_id[13]);
EXPORT const struct card_spec *gpuconf_spec(void);
EXPORT struct card_file *gpuconf_card(void);
EXPORT int gpuconf_device_attribute(int attribute, int device);

/* ---- context.c ---- */
EXPORT int gpuconf_retain_primary(int device, struct context **context);
EXPORT struct context *gpuconf_current_context(void);
EXPORT void gpuconf_set_current_context(struct context *context);
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

int engine_remember(const struct allocation *entry); /* CUDA_INVALID_VALUE if it overlaps another */
/* Take out the entry that begins at `where`; CUDA_INVALID_VALUE if there is none like it. */
int engine_forget(const void *where, enum memory_type type, enum ownership ownership,
                  struct allocation *entry);

/* ---- virtual_memory.c ---- */
void engine_map_nothing(void *where, size_t bytes); /* addresses stay reserved */
void engine_free_physical(int device); /* everything of a device; the card has its bytes back */

/* ---- streams.c ---- */
enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };
EXPORT int gpuconf_event_create(void **event);
EXPORT int gpuconf_event_record(void *event);
EXPORT int gpuconf_event_elapsed(float *milliseconds, void *start, void *end);
EXPORT int gpuconf_handle_free(void *handle); /* of a stream or an event */
EXPORT int gpuconf_stream_priority(const void *stream);
EXPORT int gpuconf_stream_create(void **stream, unsigned flags, int priority);

/* ---- cuda_driver_lookup.c ---- */
/* A function of libcuda.so.1 by its name: the newest of its versions, NULL if there is none. */
EXPORT void *gpuconf_driver_function(const char *name);

/* ---- fills.c ---- */
/* Do what the kernel of this name does; 0 if it is not one that fills. */
int engine_fill_by_kernel(const char *name, void **arguments);

/* ---- kernels.c ---- */
/* Do what a fill would (fills.c); refuse any other kernel, loudly.  `arguments` may be NULL.
 * If it returns at all from a refusal, a caller that checks gets CUDA_LAUNCH_FAILED.  The runtime's
 * callers do not (Eigen) or abort (TF_CHECK_OK): they get CUDA_OK and there is a fault, as when a
 * real kernel crashes after its launch. */
EXPORT int gpuconf_launch_kernel(const char *name, void **arguments, int caller_checks);
/* From now on do nothing on this thread, or work again: kernels, fills and copies on the device alike.
 * What is copied from the device meanwhile is zeros, which ends XLA's loops.  Returns what was before. */
EXPORT int gpuconf_skip_work(int skips);
int engine_thread_skips(void);
EXPORT int gpuconf_work_is_skipped(void); /* that, or GPUCONF_SIMCARD_KERNELS=skip */
/* CUDA_LAUNCH_FAILED once there is a fault: every copy from the device and every wait fails from
 * then on, so that no number from a kernel's missing result can reach the program.  (A real
 * fault fails every call; TensorFlow aborts on some, and a Python error says more.) */
EXPORT int gpuconf_fault(void);

/* ---- cuda_driver_modules.c ---- */
struct module; /* what kernels are loaded in */
struct function;
/* Whether those who launch its kernels look at what the launch returns. */
int engine_load_module(struct module **module, int callers_check);
/* A kernel of the runtime's, to be launched through the driver; it lives as long as the process. */
EXPORT int gpuconf_function_named(struct function **function, const char *name);
