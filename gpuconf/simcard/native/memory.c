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

static ranges allocations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int engine_remember(const struct allocation *entry)
{
    struct allocation *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return CUDA_OUT_OF_MEMORY;
    *kept = *entry;
    pthread_mutex_lock(&lock);
    int added = ranges_add(&allocations, &kept->range);
    pthread_mutex_unlock(&lock);
    if (!added)
        free(kept);
    return added ? CUDA_OK : CUDA_INVALID_VALUE;
}

int engine_forget(const void *where, enum memory_type type, enum ownership ownership,
                  struct allocation *entry)
{
    pthread_mutex_lock(&lock);
    struct allocation *found = (struct allocation *)ranges_find(&allocations, where, 1);
    if (found != NULL && (found->range.base != where || found->type != type ||
                          found->ownership != ownership))
        found = NULL;
    if (found != NULL) {
        ranges_remove(&allocations, &found->range);
        *entry = *found;
        free(found);
    }
    pthread_mutex_unlock(&lock);
    return found != NULL ? CUDA_OK : CUDA_INVALID_VALUE;
}

/* The end of the memory that begins with this entry: it goes on in what is mapped right behind it
 * on the same device. */
static const char *end_locked(const struct allocation *entry, const char *wanted)
{
    const char *end = entry->range.base + entry->range.bytes;
    while (end < wanted && entry->ownership == MAPPED) {
        const struct allocation *next =
            (const struct allocation *)ranges_find(&allocations, end, 1);
        if (next == NULL || next->ownership != MAPPED || next->device != entry->device)
            break;
        end = next->range.base + next->range.bytes;
    }
    return end;
}

int gpuconf_find(const void *where, size_t bytes, struct allocation *found)
{
    const char *wanted = (const char *)where + bytes;
    pthread_mutex_lock(&lock);
    const struct allocation *entry =
        (const struct allocation *)ranges_find(&allocations, where, 1);
    int is_there = entry != NULL && end_locked(entry, wanted) >= wanted;
    if (is_there)
        *found = *entry;
    pthread_mutex_unlock(&lock);
    return is_there ? CUDA_OK : CUDA_INVALID_VALUE;
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
    /* Not the simulated GPU but this machine is full: never let that pass for the former. */
    fprintf(stderr, "gpuconf simulated GPU: this machine cannot map %zu bytes: %s\n", bytes,
            strerror(errno));
    return NULL;
}

/* Memory that map_host_memory() gave; unmapped again where it cannot be remembered. */
static int remember_owned(char *base, size_t bytes, int device, enum memory_type type)
{
    struct allocation entry = {{base, bytes, NULL}, device, type, ALLOCATED, NULL};
    int status = engine_remember(&entry);
    if (status != CUDA_OK)
        munmap(base, bytes);
    return status;
}

int gpuconf_allocate(int device, size_t bytes, void **where)
{
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    uint32_t gpu = gpuconf_device_gpu(device);
    if (card_take(gpuconf_card(), gpu, bytes) != 0)
        return CUDA_OUT_OF_MEMORY;
    int status = CUDA_OUT_OF_MEMORY;
    char *base = map_host_memory(bytes);
    if (base != NULL)
        status = remember_owned(base, bytes, device, MEMORY_DEVICE);
    if (status == CUDA_OK)
        *where = base;
    else
        card_give_back(gpuconf_card(), gpu, bytes);
    return status;
}

int gpuconf_free(void *where, enum memory_type type)
{
    struct allocation entry;
    if (where == NULL)
        return CUDA_OK;
    if (engine_forget(where, type, ALLOCATED, &entry) != CUDA_OK)
        return CUDA_INVALID_VALUE;
    size_t bytes = entry.range.bytes;
    munmap(entry.range.base, bytes);
    if (type == MEMORY_DEVICE)
        card_give_back(gpuconf_card(), gpuconf_device_gpu(entry.device), bytes);
    return CUDA_OK;
}

void engine_free_device(int device)
{
    pthread_mutex_lock(&lock);
    for (struct range *each = ranges_list(&allocations), *next; each != NULL; each = next) {
        struct allocation *entry = (struct allocation *)each;
        next = each->next;
        if (entry->type != MEMORY_DEVICE || entry->device != device)
            continue;
        ranges_remove(&allocations, each);
        if (entry->ownership == ALLOCATED)
            munmap(each->base, each->bytes);
        else
            engine_map_nothing(each->base, each->bytes);
        free(entry);
    }
    pthread_mutex_unlock(&lock);
    engine_free_physical(device);
}

/* ---- host memory ---- */

int gpuconf_allocate_host(size_t bytes, void **where)
{
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    char *base = map_host_memory(bytes);
    if (base == NULL)
        return CUDA_OUT_OF_MEMORY;
    int status = remember_owned(base, bytes, 0, MEMORY_HOST);
    if (status == CUDA_OK)
        *where = base;
    return status;
}

int engine_register_host(void *where, size_t bytes)
{
    struct allocation entry = {{where, bytes, NULL}, 0, MEMORY_HOST, REGISTERED, NULL};
    if (where == NULL || bytes == 0)
        return CUDA_INVALID_VALUE;
    int status = engine_remember(&entry);
    return status == CUDA_INVALID_VALUE ? CUDA_HOST_MEMORY_ALREADY_REGISTERED : status;
}
SAME(cuMemHostRegister_v2, engine_register_host)

int engine_unregister_host(void *where)
{
    struct allocation entry;
    return engine_forget(where, MEMORY_HOST, REGISTERED, &entry);
}
SAME(cuMemHostUnregister, engine_unregister_host)

/* ---- copies and fills: done at once, on the caller's thread ---- */

/* Whether the device reaches this memory: its own, or page-locked host memory, which has one
 * address for both (CUDA's unified addressing). */
static int check_device_memory(const void *where, size_t bytes)
{
    struct allocation found;
    return gpuconf_find(where, bytes, &found);
}

static void move(char *to, const char *from, size_t bytes, int sides)
{
    int skips = engine_thread_skips();
    if (skips && sides == SOURCE_ON_DEVICE)
        memset(to, 0, bytes);
    else if (!skips || sides != (DESTINATION_ON_DEVICE | SOURCE_ON_DEVICE))
        memmove(to, from, bytes);
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
        move(to, from, bytes, sides);
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
    if (status != CUDA_OK || width == 0 || height == 0 || engine_thread_skips())
        return status;
    size_t bytes = (height - 1) * pitch + width * element_bytes;
    status = check_device_memory(to, bytes);
    for (size_t row = 0; status == CUDA_OK && row < height; row++)
        fill_row((char *)to + row * pitch, value, element_bytes, width);
    return status;
}
