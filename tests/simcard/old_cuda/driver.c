/* libcuda.so.1: what only TensorFlow below 2.15 asks the driver for.
 *
 * TensorFlow 1.13 to 2.2 has NVIDIA's own CUDA runtime built in, which asks for tables of functions.
 * Without them it does not start, and nobody looks: launches fail in silence, and zeros are read as
 * results.  With them it calls the driver as any program does, and its launches are refused by name
 * (kernels.c).  NVIDIA documents none of it.  What is here is what those TensorFlows call; the rest
 * is refused. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "engine.h"

#define TABLE_BYTES(count) ((void *)((count) * sizeof(void *)))

/* ---- what the runtime keeps for each context ---- */

#define MOST_KEPT (4 * CARD_MAX_GPUS) /* several copies of the runtime may be in a process */

static struct {
    const struct context *context;
    const void *manager;
    void *state;
} kept[MOST_KEPT];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

/* The state of both; an empty one if they have none; NULL if there is no room. */
static void **find_kept(const struct context *context, const void *manager)
{
    int empty = -1;
    if (context == NULL)
        context = gpuconf_current_context();
    for (int i = 0; i < MOST_KEPT; i++) {
        if (kept[i].state == NULL)
            empty = i;
        else if (kept[i].context == context && kept[i].manager == manager)
            return &kept[i].state;
    }
    if (empty < 0)
        return NULL;
    kept[empty].context = context;
    kept[empty].manager = manager;
    return &kept[empty].state;
}

static int keep(const struct context *context, const void *manager, void *state)
{
    pthread_mutex_lock(&kept_lock);
    void **found = find_kept(context, manager);
    if (found != NULL)
        *found = state;
    pthread_mutex_unlock(&kept_lock);
    return found == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

static int forget(const struct context *context, const void *manager)
{
    return keep(context, manager, NULL);
}

static int recall(void **state, const struct context *context, const void *manager)
{
    pthread_mutex_lock(&kept_lock);
    void **found = find_kept(context, manager);
    *state = found == NULL ? NULL : *found;
    pthread_mutex_unlock(&kept_lock);
    return *state == NULL ? CUDA_INVALID_HANDLE : CUDA_OK;
}

/* ---- the functions of the runtime's own table ---- */

static int primary_context(struct context **context, int device)
{
    return gpuconf_retain_primary(device, context);
}

static int load_module(struct module **module, const void *image)
{
    return engine_load_module(module, 0); /* callers of the runtime do not check: see kernels.c */
}

static int refused(void)
{
    return CUDA_NOT_SUPPORTED;
}

/* ---- room that the runtime wants for the callbacks of profilers ---- */

static void *callbacks(void **where, size_t *bytes)
{
    static char room[512];
    *where = room;
    *bytes = sizeof room;
    return room;
}

static void *more_callbacks(void **where, size_t *bytes)
{
    static char room[14];
    *where = room;
    *bytes = sizeof room;
    return room;
}

/* ---- the tables ---- */

typedef const void *entry;
static entry runtime_table[] = {
    TABLE_BYTES(10), refused, primary_context, refused, refused, refused, load_module,
    refused /* at the end, for each module */, refused, refused,
};
static entry callback_table[] = {
    TABLE_BYTES(7), refused, callbacks, refused, refused, refused, more_callbacks,
};
static entry thread_table[] = {TABLE_BYTES(1)};
static entry storage_table[] = {keep, forget, recall, refused};

static const struct {
    unsigned char id[16];
    entry *table;
} tables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9}, runtime_table},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66}, callback_table},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc}, thread_table},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93}, storage_table},
};

EXPORT int cuGetExportTable(entry **table, const unsigned char id[16])
{
    *table = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (memcmp(tables[i].id, id, sizeof tables[i].id) == 0)
            *table = tables[i].table;
    return *table == NULL ? CUDA_INVALID_VALUE : CUDA_OK;
}

/* ---- devices ---- */

/* struct CUdevprop is the first 14 attributes in their order. */
EXPORT int cuDeviceGetProperties(int properties[14], int device)
{
    if (device < 0 || device >= gpuconf_device_count())
        return CUDA_INVALID_DEVICE;
    for (int i = 0; i < 14; i++)
        properties[i] = gpuconf_device_attribute(i + 1, device);
    return engine_ready();
}
