/* libcuda.so.1: contexts.  Only primary ones exist: TensorFlow, JAX and the CUDA runtime use no
 * others. */
#include <pthread.h>

#include "engine.h"

struct context {
    int device;
    int retained; /* how often */
    unsigned flags;
};

#define STACK_DEPTH 32

static struct context primaries[CARD_MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local struct {
    struct context *entries[STACK_DEPTH];
    int depth;
} stack;

static int retain_locked(int device)
{
    struct context *primary = &primaries[device];
    if (primary->retained == 0) {
        int status = card_enter_context(gpuconf_card(), gpuconf_device_gpu(device));
        if (status != 0)
            return CUDA_OUT_OF_MEMORY;
        primary->device = device;
    }
    primary->retained++;
    return CUDA_OK;
}

int gpuconf_retain_primary(int device, struct context **context)
{
    pthread_mutex_lock(&lock);
    int status = retain_locked(device);
    pthread_mutex_unlock(&lock);
    *context = &primaries[device];
    return status;
}

static void destroy_locked(int device)
{
    primaries[device].retained = 0;
    primaries[device].flags = 0;
    engine_free_device(device);
    card_leave_context(gpuconf_card(), gpuconf_device_gpu(device));
}

EXPORT int cuDevicePrimaryCtxRetain(struct context **context, int device)
{
    int status = engine_check_device(device);
    return status == CUDA_OK ? gpuconf_retain_primary(device, context) : status;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    int status = engine_check_device(device);
    if (status != CUDA_OK)
        return status;
    pthread_mutex_lock(&lock);
    int active = primaries[device].retained > 0;
    if (active && --primaries[device].retained == 0)
        destroy_locked(device);
    pthread_mutex_unlock(&lock);
    return active ? CUDA_OK : CUDA_INVALID_CONTEXT;
}
SAME(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)

EXPORT int cuDevicePrimaryCtxReset_v2(int device)
{
    int status = engine_check_device(device);
    if (status != CUDA_OK)
        return status;
    pthread_mutex_lock(&lock);
    if (primaries[device].retained > 0)
        destroy_locked(device);
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    int status = engine_check_device(device);
    if (status != CUDA_OK)
        return status;
    pthread_mutex_lock(&lock);
    *flags = primaries[device].flags;
    *active = primaries[device].retained > 0;
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
    int status = engine_check_device(device);
    if (status != CUDA_OK)
        return status;
    pthread_mutex_lock(&lock);
    primaries[device].flags = flags;
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}
SAME(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2)

struct context *engine_primary(int device)
{
    return primaries[device].retained > 0 ? &primaries[device] : NULL;
}

/* ---- the thread's contexts ---- */

struct context *gpuconf_current_context(void)
{
    return stack.depth > 0 ? stack.entries[stack.depth - 1] : NULL;
}

EXPORT int cuCtxGetCurrent(struct context **context)
{
    *context = gpuconf_current_context();
    return engine_ready();
}

void gpuconf_set_current_context(struct context *context)
{
    if (stack.depth == 0)
        stack.depth = 1;
    stack.entries[stack.depth - 1] = context;
}

EXPORT int cuCtxSetCurrent(struct context *context)
{
    gpuconf_set_current_context(context);
    return engine_ready();
}

EXPORT int cuCtxPushCurrent_v2(struct context *context)
{
    if (stack.depth == STACK_DEPTH)
        return CUDA_INVALID_VALUE;
    stack.entries[stack.depth++] = context;
    return CUDA_OK;
}

EXPORT int cuCtxPopCurrent_v2(struct context **context)
{
    if (stack.depth == 0)
        return CUDA_INVALID_CONTEXT;
    stack.depth--;
    if (context != NULL)
        *context = stack.entries[stack.depth];
    return CUDA_OK;
}

int gpuconf_context_device(const struct context *context)
{
    return context->device;
}

int engine_current_device(int *device)
{
    int status = engine_ready();
    const struct context *context = gpuconf_current_context();
    if (status == CUDA_OK && context == NULL)
        status = CUDA_INVALID_CONTEXT;
    if (status == CUDA_OK)
        *device = gpuconf_context_device(context);
    return status;
}
SAME(cuCtxGetDevice, engine_current_device)

EXPORT int cuCtxGetFlags(unsigned *flags)
{
    int device, active;
    int status = engine_current_device(&device);
    return status == CUDA_OK ? cuDevicePrimaryCtxGetState(device, flags, &active) : status;
}

EXPORT int cuCtxSynchronize(void)
{
    int device;
    int status = engine_current_device(&device);
    return status == CUDA_OK ? gpuconf_fault() : status;
}

EXPORT int cuCtxGetApiVersion(struct context *context, unsigned *version)
{
    *version = 3020; /* the version of the context API since CUDA 4 */
    return engine_ready();
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = LEAST_PRIORITY;
    *greatest = GREATEST_PRIORITY;
    return engine_ready();
}

EXPORT int cuCtxGetSharedMemConfig(int *config)
{
    *config = 0; /* the default */
    return engine_ready();
}

EXPORT int cuCtxSetSharedMemConfig(int config)
{
    return engine_ready();
}
