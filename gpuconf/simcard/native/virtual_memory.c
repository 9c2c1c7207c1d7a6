/* libcuda.so.1: virtual memory management, with physical memory and addresses apart.
 *
 * All physical memory of the process is one sparse file in memory, so that a handle can be mapped
 * twice and ten thousand handles need one descriptor.  A handle takes its bytes from the card when
 * it is made; they go back when it is released and mapped nowhere. */
#define _GNU_SOURCE
#include "engine.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct physical {
    struct range self; /* its own address: a handle is looked for among those that were given out */
    size_t bytes;
    off_t offset;
    int device;
    int retained; /* cuMemCreate, cuMemRetainAllocationHandle */
    int mapped;
};

static struct {
    int fd;
    off_t end;
    ranges physical, reserved;
} all = {.fd = -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define GRANULARITY ((size_t)2 << 20)

static int is_granular(size_t bytes)
{
    return bytes > 0 && bytes % GRANULARITY == 0;
}

enum { LOCATION_DEVICE = 1, PINNED = 1, READ_AND_WRITE = 3 };

struct location { /* CUmemLocation */
    int type, id;
};

struct properties { /* CUmemAllocationProp */
    int type, handle_types;
    struct location location;
    void *metadata;
    unsigned char flags[8];
};

/* Memory of a device only: the host's is not offered. */
static int check_properties(const struct properties *properties)
{
    int status = engine_ready();
    if (status != CUDA_OK)
        return status;
    if (properties->location.type != LOCATION_DEVICE)
        return CUDA_NOT_SUPPORTED;
    return properties->location.id >= 0 && properties->location.id < gpuconf_device_count()
               ? CUDA_OK
               : CUDA_INVALID_DEVICE;
}

EXPORT int cuMemGetAllocationGranularity(size_t *bytes, const struct properties *properties,
                                         int option)
{
    *bytes = GRANULARITY;
    return check_properties(properties);
}

/* ---- physical memory ---- */

static struct physical *known_locked(struct physical *handle)
{
    struct range *found = ranges_find(&all.physical, handle, 1);
    return found != NULL && (struct physical *)found == handle ? handle : NULL;
}

static int create_locked(int device, size_t bytes, struct physical **made)
{
    struct physical *physical = malloc(sizeof *physical);
    if (physical == NULL)
        return CUDA_OUT_OF_MEMORY;
    *physical = (struct physical){{(char *)physical, 1, NULL}, bytes, all.end, device, 1, 0};
    if (all.fd < 0)
        all.fd = memfd_create("gpuconf simulated GPU", MFD_CLOEXEC);
    if (all.fd < 0 || ftruncate(all.fd, all.end + (off_t)bytes) != 0 ||
        !ranges_add(&all.physical, &physical->self)) {
        free(physical);
        return CUDA_OUT_OF_MEMORY;
    }
    all.end += (off_t)bytes;
    *made = physical;
    return CUDA_OK;
}

EXPORT int cuMemCreate(struct physical **handle, size_t bytes, const struct properties *properties,
                       unsigned long long flags)
{
    *handle = NULL;
    int status = check_properties(properties);
    if (status != CUDA_OK)
        return status;
    if (!is_granular(bytes))
        return CUDA_INVALID_VALUE;
    uint32_t gpu = gpuconf_device_gpu(properties->location.id);
    if (card_take(gpuconf_card(), gpu, bytes) != 0)
        return CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    status = create_locked(properties->location.id, bytes, handle);
    pthread_mutex_unlock(&lock);
    if (status != CUDA_OK)
        card_give_back(gpuconf_card(), gpu, bytes);
    return status;
}

static void forget_locked(struct physical *physical)
{
    fallocate(all.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->offset,
              (off_t)physical->bytes);
    ranges_remove(&all.physical, &physical->self);
    free(physical);
}

static void drop_if_unused_locked(struct physical *physical)
{
    if (physical->retained > 0 || physical->mapped > 0)
        return;
    card_give_back(gpuconf_card(), gpuconf_device_gpu(physical->device), physical->bytes);
    forget_locked(physical);
}

EXPORT int cuMemRelease(struct physical *handle)
{
    pthread_mutex_lock(&lock);
    struct physical *physical = known_locked(handle);
    int status = physical != NULL && physical->retained > 0 ? CUDA_OK : CUDA_INVALID_VALUE;
    if (status == CUDA_OK) {
        physical->retained--;
        drop_if_unused_locked(physical);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

EXPORT int cuMemGetAllocationPropertiesFromHandle(struct properties *properties,
                                                  struct physical *handle)
{
    memset(properties, 0, sizeof *properties);
    properties->type = PINNED;
    properties->location.type = LOCATION_DEVICE;
    pthread_mutex_lock(&lock);
    const struct physical *physical = known_locked(handle);
    if (physical != NULL)
        properties->location.id = physical->device;
    pthread_mutex_unlock(&lock);
    return physical != NULL ? CUDA_OK : CUDA_INVALID_VALUE;
}

EXPORT int cuMemRetainAllocationHandle(struct physical **handle, const void *where)
{
    struct allocation entry;
    *handle = NULL;
    pthread_mutex_lock(&lock);
    int status = gpuconf_find(where, 1, &entry);
    if (status == CUDA_OK && entry.ownership != MAPPED)
        status = CUDA_INVALID_VALUE;
    if (status == CUDA_OK) {
        *handle = entry.physical;
        entry.physical->retained++;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- addresses ---- */

static int reserve_locked(char *base, size_t bytes)
{
    struct range *range = malloc(sizeof *range);
    if (range == NULL)
        return 0;
    *range = (struct range){base, bytes, NULL};
    int added = ranges_add(&all.reserved, range);
    if (!added)
        free(range);
    return added;
}

static char *map_aligned(size_t bytes, size_t alignment)
{
    char *all_of_it = mmap(NULL, bytes + alignment, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all_of_it == MAP_FAILED)
        return NULL;
    size_t before = (alignment - (uintptr_t)all_of_it % alignment) % alignment;
    if (before > 0)
        munmap(all_of_it, before);
    munmap(all_of_it + before + bytes, alignment - before);
    return all_of_it + before;
}

/* The wish for an address and the flags, which come last, are not looked at. */
EXPORT int cuMemAddressReserve(void **where, size_t bytes, size_t alignment)
{
    *where = NULL;
    int status = engine_ready();
    if (status != CUDA_OK)
        return status;
    if (!is_granular(bytes) || (alignment & (alignment - 1)) != 0)
        return CUDA_INVALID_VALUE;
    if (alignment < GRANULARITY)
        alignment = GRANULARITY;
    char *base = map_aligned(bytes, alignment);
    if (base == NULL)
        return CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    int added = reserve_locked(base, bytes);
    pthread_mutex_unlock(&lock);
    if (!added)
        munmap(base, bytes);
    *where = added ? base : NULL;
    return added ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

/* Only what was reserved, and as a whole. */
EXPORT int cuMemAddressFree(void *where, size_t bytes)
{
    pthread_mutex_lock(&lock);
    struct range *range = ranges_find(&all.reserved, where, 1);
    int status = range != NULL && range->base == where && range->bytes == bytes
                     ? CUDA_OK
                     : CUDA_INVALID_VALUE;
    if (status == CUDA_OK) {
        ranges_remove(&all.reserved, range);
        munmap(where, bytes);
        free(range);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- mappings ---- */

void engine_map_nothing(void *where, size_t bytes)
{
    mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int map_locked(char *where, size_t bytes, size_t offset, struct physical *physical)
{
    const struct range *room = ranges_find(&all.reserved, where, 1);
    if (room == NULL || where + bytes > room->base + room->bytes)
        return CUDA_INVALID_VALUE;
    struct allocation entry = {{where, bytes, NULL}, physical->device, MEMORY_DEVICE, MAPPED,
                               physical};
    int status = engine_remember(&entry);
    if (status != CUDA_OK)
        return status;
    void *mapped = mmap(where, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_NORESERVE, all.fd,
                        physical->offset + (off_t)offset);
    if (mapped == MAP_FAILED) {
        engine_forget(where, MEMORY_DEVICE, MAPPED, &entry);
        return CUDA_OUT_OF_MEMORY;
    }
    physical->mapped++;
    return CUDA_OK;
}

EXPORT int cuMemMap(void *where, size_t bytes, size_t offset, struct physical *handle)
{
    if (!is_granular(bytes))
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct physical *physical = known_locked(handle);
    int status = CUDA_INVALID_VALUE;
    if (physical != NULL && offset <= physical->bytes && bytes <= physical->bytes - offset)
        status = map_locked(where, bytes, offset, physical);
    pthread_mutex_unlock(&lock);
    return status;
}

/* The mapping that begins here and ends within the range, NULL if there is none. */
static const struct allocation *whole_mapping(const char *where, const char *end,
                                              struct allocation *found)
{
    if (gpuconf_find(where, 1, found) != CUDA_OK || found->ownership != MAPPED ||
        found->range.base != where || where + found->range.bytes > end)
        return NULL;
    return found;
}

/* Whole mappings only, as the driver wants it; the range may hold several that adjoin. */
EXPORT int cuMemUnmap(void *where, size_t bytes)
{
    struct allocation each;
    char *from = where, *end = from + bytes;
    pthread_mutex_lock(&lock);
    int status = bytes > 0 ? CUDA_OK : CUDA_INVALID_VALUE;
    for (char *at = from; status == CUDA_OK && at < end; at += each.range.bytes)
        if (whole_mapping(at, end, &each) == NULL)
            status = CUDA_INVALID_VALUE;
    for (char *at = from; status == CUDA_OK && at < end; at += each.range.bytes) {
        engine_forget(at, MEMORY_DEVICE, MAPPED, &each);
        engine_map_nothing(at, each.range.bytes);
        each.physical->mapped--;
        drop_if_unused_locked(each.physical);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void engine_free_physical(int device)
{
    pthread_mutex_lock(&lock);
    for (struct range *each = ranges_list(&all.physical), *next; each != NULL; each = next) {
        struct physical *physical = (struct physical *)each;
        next = each->next;
        if (physical->device == device)
            forget_locked(physical);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- access: what is mapped is readable and writable at once ---- */

EXPORT int cuMemSetAccess(void *where, size_t bytes, const void *access, size_t count)
{
    struct allocation found;
    return gpuconf_find(where, bytes, &found);
}

EXPORT int cuMemGetAccess(unsigned long long *flags, const struct location *location,
                          const void *where)
{
    struct allocation found;
    int status = gpuconf_find(where, 1, &found);
    int is_there = status == CUDA_OK && location->id == found.device;
    *flags = is_there ? READ_AND_WRITE : 0;
    return status;
}
