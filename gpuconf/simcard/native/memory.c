#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Device memory is host memory that the kernel pages in when it is first touched: an allocation
 * of 9 GiB that TensorFlow only cuts up costs the host next to nothing. */

static struct {
    struct allocation *entries;
    size_t count, room;
} table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int remember_locked(const struct allocation *entry)
{
    if (table.count == table.room) {
        size_t room = table.room == 0 ? 64 : 2 * table.room;
        struct allocation *entries = realloc(table.entries, room * sizeof *entries);
        if (entries == NULL)
            return CUDA_OUT_OF_MEMORY;
        table.entries = entries;
        table.room = room;
    }
    table.entries[table.count++] = *entry;
    return CUDA_OK;
}

static int remember(const struct allocation *entry)
{
    pthread_mutex_lock(&lock);
    int status = remember_locked(entry);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Take the entry that begins at `where` out of the table. */
static int forget(const void *where, enum memory_type type, int owned, struct allocation *entry)
{
    int status = CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < table.count; i++) {
        struct allocation *each = &table.entries[i];
        if (each->base != where || each->type != type || each->owned != owned)
            continue;
        *entry = *each;
        *each = table.entries[--table.count];
        status = CUDA_OK;
        break;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static const struct allocation *entry_at_locked(const char *where)
{
    for (size_t i = 0; i < table.count; i++) {
        const struct allocation *each = &table.entries[i];
        if (where >= each->base && where < each->base + each->bytes)
            return each;
    }
    return NULL;
}

/* A range may go on in the next piece of memory mapped behind it, on the same device. */
static int goes_on(const struct allocation *entry, const struct allocation *next)
{
    return next != NULL && entry->owned == MAPPED && next->owned == MAPPED &&
           next->device == entry->device;
}

int gpuconf_find(const void *where, size_t bytes, struct allocation *found)
{
    const char *from = where, *end = from + bytes;
    pthread_mutex_lock(&lock);
    const struct allocation *entry = entry_at_locked(from);
    int status = entry == NULL ? CUDA_INVALID_VALUE : CUDA_OK;
    if (entry != NULL)
        *found = *entry;
    while (status == CUDA_OK && end > entry->base + entry->bytes) {
        const struct allocation *next = entry_at_locked(entry->base + entry->bytes);
        if (!goes_on(entry, next))
            status = CUDA_INVALID_VALUE;
        entry = next;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int gpuconf_remember_mapped(int device, void *where, size_t bytes)
{
    struct allocation entry = {where, bytes, device, MEMORY_DEVICE, MAPPED};
    return remember(&entry);
}

void gpuconf_forget_mapped(void *where)
{
    struct allocation entry;
    forget(where, MEMORY_DEVICE, MAPPED, &entry);
}

/* ---- device memory ---- */

int gpuconf_memory_info(int device, size_t *free_bytes, size_t *total_bytes)
{
    uint64_t used;
    uint64_t total = gpuconf_spec()->total_bytes;
    if (simcard_used(gpuconf_card(), gpuconf_device_gpu(device), &used) != 0)
        return CUDA_INVALID_DEVICE;
    *free_bytes = used > total ? 0 : total - used;
    *total_bytes = total;
    return CUDA_OK;
}

static void *map_host_memory(size_t bytes)
{
    void *where = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (where != MAP_FAILED)
        return where;
    /* Not the simulated card but this machine is full: never let that pass for the former. */
    fprintf(stderr, "gpuconf simulated card: this machine cannot map %zu bytes: %s\n", bytes,
            strerror(errno));
    return NULL;
}

int gpuconf_allocate(int device, size_t bytes, void **where)
{
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    uint32_t gpu = gpuconf_device_gpu(device);
    if (card_take(gpuconf_card(), gpu, bytes) != 0)
        return CUDA_OUT_OF_MEMORY;
    struct allocation entry = {map_host_memory(bytes), bytes, device, MEMORY_DEVICE, 1};
    if (entry.base == NULL || remember(&entry) != CUDA_OK) {
        if (entry.base != NULL)
            munmap(entry.base, bytes);
        card_give_back(gpuconf_card(), gpu, bytes);
        return CUDA_OUT_OF_MEMORY;
    }
    *where = entry.base;
    return CUDA_OK;
}

int gpuconf_free(void *where, enum memory_type type)
{
    struct allocation entry;
    if (where == NULL)
        return CUDA_OK;
    if (forget(where, type, 1, &entry) != CUDA_OK)
        return CUDA_INVALID_VALUE;
    munmap(entry.base, entry.bytes);
    if (type == MEMORY_DEVICE)
        card_give_back(gpuconf_card(), gpuconf_device_gpu(entry.device), entry.bytes);
    return CUDA_OK;
}

void engine_free_device(int device)
{
    pthread_mutex_lock(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < table.count; i++) {
        struct allocation *each = &table.entries[i];
        if (each->type == MEMORY_DEVICE && each->device == device)
            munmap(each->base, each->bytes);
        else
            table.entries[kept++] = *each;
    }
    table.count = kept;
    pthread_mutex_unlock(&lock);
}

/* ---- host memory ---- */

int gpuconf_allocate_host(size_t bytes, void **where)
{
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    struct allocation entry = {map_host_memory(bytes), bytes, 0, MEMORY_HOST, 1};
    if (entry.base == NULL)
        return CUDA_OUT_OF_MEMORY;
    int status = remember(&entry);
    if (status != CUDA_OK)
        munmap(entry.base, bytes);
    else
        *where = entry.base;
    return status;
}

static int overlaps_host_memory_locked(const struct allocation *entry)
{
    for (size_t i = 0; i < table.count; i++) {
        const struct allocation *each = &table.entries[i];
        if (each->type == MEMORY_HOST && entry->base < each->base + each->bytes &&
            each->base < entry->base + entry->bytes)
            return 1;
    }
    return 0;
}

int engine_register_host(void *where, size_t bytes)
{
    struct allocation entry = {where, bytes, 0, MEMORY_HOST, 0};
    if (where == NULL || bytes == 0)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int status = overlaps_host_memory_locked(&entry) ? CUDA_HOST_MEMORY_ALREADY_REGISTERED
                                                     : remember_locked(&entry);
    pthread_mutex_unlock(&lock);
    return status;
}

int engine_unregister_host(void *where)
{
    struct allocation entry;
    return forget(where, MEMORY_HOST, 0, &entry);
}

/* ---- copies and fills: done at once, on the caller's thread ---- */

/* Whether the device reaches this memory: its own, or page-locked host memory, which has one
 * address for both (CUDA's unified addressing). */
static int check_device_memory(const void *where, size_t bytes)
{
    struct allocation found;
    return gpuconf_find(where, bytes, &found);
}

int gpuconf_copy(void *to, const void *from, size_t bytes, int sides)
{
    int status = engine_ready();
    if (status == CUDA_OK && sides != DESTINATION_ON_DEVICE)
        status = gpuconf_fault();
    if (status == CUDA_OK && bytes > 0 && (sides & DESTINATION_ON_DEVICE))
        status = check_device_memory(to, bytes);
    if (status == CUDA_OK && bytes > 0 && (sides & SOURCE_ON_DEVICE))
        status = check_device_memory(from, bytes);
    if (status == CUDA_OK)
        memmove(to, from, bytes);
    return status;
}

static void fill_row(char *row, uint32_t value, size_t element_bytes, size_t width)
{
    if (element_bytes == 1) {
        memset(row, (int)(value & 0xff), width);
        return;
    }
    for (size_t i = 0; i < width; i++)
        memcpy(row + i * element_bytes, &value, element_bytes); /* little-endian, as CUDA is */
}

int gpuconf_fill(void *to, size_t pitch, uint32_t value, size_t element_bytes, size_t width,
                 size_t height)
{
    int status = engine_ready();
    if (status != CUDA_OK || width == 0 || height == 0)
        return status;
    size_t bytes = (height - 1) * pitch + width * element_bytes;
    status = check_device_memory(to, bytes);
    for (size_t row = 0; status == CUDA_OK && row < height; row++)
        fill_row((char *)to + row * pitch, value, element_bytes, width);
    return status;
}
