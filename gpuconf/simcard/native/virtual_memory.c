/* Virtual memory management (cuMemCreate and friends): physical memory and addresses apart.
 *
 * All physical memory of the process is one sparse memfd, so that a handle can be mapped twice and
 * ten thousand handles need one descriptor.  A handle takes its bytes from the card when it is
 * made; they go back when it is released and mapped nowhere. */
#define _GNU_SOURCE
#include "engine.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct physical {
    size_t bytes;
    off_t offset;
    int device;
    int retained; /* cuMemCreate, cuMemRetainAllocationHandle */
    int mapped;
};

struct mapping {
    char *where;
    size_t bytes;
    struct physical *physical;
};

static struct {
    int fd;
    off_t end;
    struct mapping *mappings;
    size_t count, room;
} all = {.fd = -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_granular(size_t bytes)
{
    return bytes > 0 && bytes % VIRTUAL_MEMORY_GRANULARITY == 0;
}

int engine_physical_create(int device, size_t bytes, struct physical **made)
{
    if (!is_granular(bytes))
        return CUDA_INVALID_VALUE;
    struct physical *physical = calloc(1, sizeof *physical);
    if (physical == NULL)
        return CUDA_OUT_OF_MEMORY;
    if (card_take(gpuconf_card(), gpuconf_device_gpu(device), bytes) != 0) {
        free(physical);
        return CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&lock);
    if (all.fd < 0)
        all.fd = memfd_create("gpuconf simulated card", MFD_CLOEXEC);
    int status = all.fd >= 0 && ftruncate(all.fd, all.end + (off_t)bytes) == 0
                     ? CUDA_OK
                     : CUDA_OUT_OF_MEMORY;
    if (status == CUDA_OK) {
        *physical = (struct physical){bytes, all.end, device, 1, 0};
        all.end += (off_t)bytes;
    }
    pthread_mutex_unlock(&lock);
    if (status != CUDA_OK) {
        card_give_back(gpuconf_card(), gpuconf_device_gpu(device), bytes);
        free(physical);
        return status;
    }
    *made = physical;
    return CUDA_OK;
}

static void drop_if_unused_locked(struct physical *physical)
{
    if (physical->retained > 0 || physical->mapped > 0)
        return;
    (void)!fallocate(all.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->offset,
                     (off_t)physical->bytes);
    card_give_back(gpuconf_card(), gpuconf_device_gpu(physical->device), physical->bytes);
    free(physical);
}

int engine_physical_release(struct physical *physical)
{
    pthread_mutex_lock(&lock);
    int status = physical->retained > 0 ? CUDA_OK : CUDA_INVALID_VALUE;
    if (status == CUDA_OK) {
        physical->retained--;
        drop_if_unused_locked(physical);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int engine_physical_device(const struct physical *physical)
{
    return physical->device;
}

int engine_physical_retain(const void *where, struct physical **found)
{
    int status = CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < all.count && status != CUDA_OK; i++) {
        struct mapping *each = &all.mappings[i];
        if ((const char *)where < each->where || (const char *)where >= each->where + each->bytes)
            continue;
        *found = each->physical;
        each->physical->retained++;
        status = CUDA_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int engine_reserve_addresses(size_t bytes, size_t alignment, void **where)
{
    if (!is_granular(bytes))
        return CUDA_INVALID_VALUE;
    if (alignment < VIRTUAL_MEMORY_GRANULARITY)
        alignment = VIRTUAL_MEMORY_GRANULARITY;
    char *reserved = mmap(NULL, bytes + alignment, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return CUDA_OUT_OF_MEMORY;
    char *aligned = (char *)(((uintptr_t)reserved + alignment - 1) / alignment * alignment);
    if (aligned > reserved)
        munmap(reserved, (size_t)(aligned - reserved));
    munmap(aligned + bytes, alignment - (size_t)(aligned - reserved));
    *where = aligned;
    return CUDA_OK;
}

int engine_free_addresses(void *where, size_t bytes)
{
    return munmap(where, bytes) == 0 ? CUDA_OK : CUDA_INVALID_VALUE;
}

static int room_for_one_locked(void)
{
    if (all.count < all.room)
        return 1;
    size_t room = all.room == 0 ? 64 : 2 * all.room;
    struct mapping *mappings = realloc(all.mappings, room * sizeof *mappings);
    if (mappings == NULL)
        return 0;
    all.mappings = mappings;
    all.room = room;
    return 1;
}

static int map_locked(void *where, size_t bytes, size_t offset, struct physical *physical)
{
    if (!room_for_one_locked())
        return CUDA_OUT_OF_MEMORY;
    void *mapped = mmap(where, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_NORESERVE, all.fd,
                        physical->offset + (off_t)offset);
    if (mapped == MAP_FAILED)
        return CUDA_INVALID_VALUE;
    all.mappings[all.count++] = (struct mapping){where, bytes, physical};
    physical->mapped++;
    return gpuconf_remember_mapped(physical->device, where, bytes);
}

int engine_map(void *where, size_t bytes, size_t offset, struct physical *physical)
{
    if (!is_granular(bytes) || offset > physical->bytes || bytes > physical->bytes - offset)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int status = map_locked(where, bytes, offset, physical);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Whole mappings only, as the driver wants it; a range may hold several. */
int engine_unmap(void *where, size_t bytes)
{
    char *from = where;
    pthread_mutex_lock(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < all.count; i++) {
        struct mapping each = all.mappings[i];
        if (each.where < from || each.where + each.bytes > from + bytes) {
            all.mappings[kept++] = each;
            continue;
        }
        mmap(each.where, each.bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        gpuconf_forget_mapped(each.where);
        each.physical->mapped--;
        drop_if_unused_locked(each.physical);
    }
    int status = kept < all.count ? CUDA_OK : CUDA_INVALID_VALUE;
    all.count = kept;
    pthread_mutex_unlock(&lock);
    return status;
}
