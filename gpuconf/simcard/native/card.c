#define _GNU_SOURCE
#include "card.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

#define CARD_MAGIC 0x3264726163636770ull /* "gpccard2": raise the digit with the layout */

struct use {
    uint64_t bytes;
    uint32_t has_context;
    uint32_t reserved;
};

struct slot {
    int32_t pid; /* 0: free */
    uint32_t reserved;
    uint64_t start; /* with the pid, names a process even after the pid is used again */
    struct use gpus[CARD_MAX_GPUS];
};

struct card_file {
    _Atomic uint64_t magic; /* written last: a reader never sees a half-made file as one */
    pthread_mutex_t lock;
    struct card_spec spec;
    uint64_t desktop_bytes[CARD_MAX_GPUS];
    struct slot slots[CARD_MAX_PROCESSES];
};

/* ---- the file ---- */

/* A robust mutex inside the file, and not a file lock: flock stays held by a forked child of a
 * killed holder, and POSIX locks are dropped when *any* descriptor of the file is closed (the
 * driver and NVML each have one) and do not keep two threads apart. */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static int map_file(int fd, struct card_file **card)
{
    void *where = mmap(NULL, sizeof **card, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int failure = errno;
    close(fd);
    if (where == MAP_FAILED)
        return -failure;
    *card = where;
    return 0;
}

int simcard_create(const char *path, const struct card_spec *spec)
{
    if (spec->count < 1 || spec->count > CARD_MAX_GPUS || spec->used_bytes > spec->total_bytes)
        return -EINVAL;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    /* Really taken, not a hole: on a full disk writing into a hole of a mapped file is a SIGBUS. */
    int failure = posix_fallocate(fd, 0, sizeof(struct card_file));
    if (failure != 0) {
        close(fd);
        unlink(path);
        return -failure;
    }
    struct card_file *card = NULL;
    int status = map_file(fd, &card);
    if (status != 0)
        return status;
    init_lock(&card->lock);
    card->spec = *spec;
    card->spec.name[sizeof spec->name - 1] = '\0';
    card->spec.driver_version[sizeof spec->driver_version - 1] = '\0';
    for (uint32_t gpu = 0; gpu < spec->count; gpu++)
        card->desktop_bytes[gpu] = spec->used_bytes;
    atomic_store(&card->magic, CARD_MAGIC);
    simcard_close(card);
    return 0;
}

int simcard_open(const char *path, struct card_file **card)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat status;
    /* Touching a mapping beyond the end of a short file would be a SIGBUS. */
    if (fstat(fd, &status) != 0 || status.st_size != (off_t)sizeof **card) {
        close(fd);
        return -EPROTO;
    }
    int failure = map_file(fd, card);
    if (failure != 0)
        return failure;
    if (atomic_load(&(*card)->magic) == CARD_MAGIC)
        return 0;
    simcard_close(*card);
    return -EPROTO;
}

void simcard_close(struct card_file *card)
{
    munmap(card, sizeof *card);
}

void simcard_describe(const struct card_file *card, struct card_spec *spec)
{
    *spec = card->spec;
}

const struct card_spec *card_get_spec(const struct card_file *card)
{
    return &card->spec;
}

/* ---- locking, and forgetting the dead ---- */

static void forget_the_dead(struct card_file *card)
{
    for (int i = 0; i < CARD_MAX_PROCESSES; i++) {
        struct slot *slot = &card->slots[i];
        if (slot->pid != 0 && !process_is_alive(slot->pid, slot->start))
            memset(slot, 0, sizeof *slot);
    }
}

static int enter(struct card_file *card)
{
    int status = pthread_mutex_lock(&card->lock);
    if (status == EOWNERDEAD) /* its holder was killed: nothing to mend, see card.h */
        status = pthread_mutex_consistent(&card->lock);
    if (status != 0)
        return -status;
    forget_the_dead(card);
    return 0;
}

static void leave(struct card_file *card)
{
    pthread_mutex_unlock(&card->lock);
}

/* ---- looking ---- */

static uint64_t bytes_in_use(const struct card_file *card, uint32_t gpu)
{
    uint64_t sum = card->desktop_bytes[gpu];
    for (int i = 0; i < CARD_MAX_PROCESSES; i++)
        sum += card->slots[i].gpus[gpu].bytes;
    return sum;
}

int simcard_used(struct card_file *card, uint32_t gpu, uint64_t *used_bytes)
{
    if (gpu >= card->spec.count)
        return -EINVAL;
    int status = enter(card);
    if (status != 0)
        return status;
    *used_bytes = bytes_in_use(card, gpu);
    leave(card);
    return 0;
}

int simcard_processes(struct card_file *card, uint32_t gpu, struct card_process *found, int room)
{
    if (gpu >= card->spec.count)
        return -EINVAL;
    int status = enter(card);
    if (status != 0)
        return status;
    int count = 0;
    for (int i = 0; i < CARD_MAX_PROCESSES; i++) {
        const struct slot *slot = &card->slots[i];
        if (slot->pid == 0 || !slot->gpus[gpu].has_context)
            continue;
        if (count < room) {
            found[count].pid = slot->pid;
            found[count].bytes = slot->gpus[gpu].bytes;
        }
        count++;
    }
    leave(card);
    return count;
}

int simcard_set_desktop(struct card_file *card, uint32_t gpu, uint64_t bytes)
{
    if (gpu >= card->spec.count || bytes > card->spec.total_bytes)
        return -EINVAL;
    int status = enter(card);
    if (status != 0)
        return status;
    uint64_t others = bytes_in_use(card, gpu) - card->desktop_bytes[gpu];
    if (others + bytes > card->spec.total_bytes)
        status = -ENOMEM;
    else
        card->desktop_bytes[gpu] = bytes;
    leave(card);
    return status;
}

/* ---- the calling process's own slot ---- */

static struct slot *find_slot(struct card_file *card, int32_t pid)
{
    for (int i = 0; i < CARD_MAX_PROCESSES; i++)
        if (card->slots[i].pid == pid)
            return &card->slots[i];
    return NULL;
}

/* Find the calling process's slot, or give it one.  Without its start there is none: a slot with
 * a wrong start would be taken for a dead process's by everybody else. */
static int own_slot(struct card_file *card, struct slot **found)
{
    int32_t pid = (int32_t)getpid();
    *found = find_slot(card, pid);
    if (*found != NULL)
        return 0;
    struct slot *slot = find_slot(card, 0);
    if (slot == NULL)
        return -ENOSPC;
    int failure = process_start(pid, &slot->start);
    if (failure != 0)
        return failure;
    slot->pid = pid; /* last: a slot with a pid is always whole */
    *found = slot;
    return 0;
}

/* exec keeps the pid and the start time but drops all device memory. */
void card_forget_before_exec(struct card_file *card)
{
    if (enter(card) != 0)
        return;
    struct slot *slot = find_slot(card, (int32_t)getpid());
    if (slot != NULL)
        memset(slot, 0, sizeof *slot);
    leave(card);
}

static int take_locked(struct card_file *card, uint32_t gpu, uint64_t bytes, int has_context)
{
    uint64_t used = bytes_in_use(card, gpu);
    if (used > card->spec.total_bytes || bytes > card->spec.total_bytes - used)
        return -ENOMEM;
    struct slot *slot;
    int status = own_slot(card, &slot);
    if (status != 0)
        return status;
    slot->gpus[gpu].bytes += bytes;
    if (has_context)
        slot->gpus[gpu].has_context = 1;
    return 0;
}

/* CUDA only knows "out of memory": where the card has room, say what is lacking instead. */
static void explain_refusal(int status)
{
    if (status == -ENOSPC)
        fprintf(stderr, "gpuconf simulated GPU: more than %d processes\n", CARD_MAX_PROCESSES);
    else if (status != 0 && status != -ENOMEM)
        fprintf(stderr,
                "gpuconf simulated GPU: no memory for a process that cannot read its own"
                " /proc/%d/stat: %s\n",
                (int)getpid(), strerror(-status));
}

static int take(struct card_file *card, uint32_t gpu, uint64_t bytes, int has_context)
{
    int status = enter(card);
    if (status != 0)
        return status;
    status = take_locked(card, gpu, bytes, has_context);
    leave(card);
    explain_refusal(status);
    return status;
}

int card_take(struct card_file *card, uint32_t gpu, uint64_t bytes)
{
    return take(card, gpu, bytes, 0);
}

void card_give_back(struct card_file *card, uint32_t gpu, uint64_t bytes)
{
    if (enter(card) != 0)
        return;
    struct slot *slot = find_slot(card, (int32_t)getpid());
    if (slot != NULL) {
        /* Never below 0: that would be a card that is full for everybody. */
        uint64_t held = slot->gpus[gpu].bytes;
        slot->gpus[gpu].bytes = bytes < held ? held - bytes : 0;
    }
    leave(card);
}

static uint64_t context_bytes(const struct card_file *card)
{
    const char *text = getenv(CARD_CONTEXT_VARIABLE);
    if (text == NULL || *text == '\0')
        return card->spec.context_bytes;
    return strtoull(text, NULL, 10) << 20;
}

int card_enter_context(struct card_file *card, uint32_t gpu)
{
    return take(card, gpu, context_bytes(card), 1);
}

void card_leave_context(struct card_file *card, uint32_t gpu)
{
    if (enter(card) != 0)
        return;
    struct slot *slot = find_slot(card, (int32_t)getpid());
    if (slot != NULL)
        memset(&slot->gpus[gpu], 0, sizeof slot->gpus[gpu]);
    leave(card);
}

/* ---- identity ---- */

/* The number of the GPU stands in the first byte, so that `GPU-01` is a unique prefix and
 * `GPU-0` an ambiguous one. */
void card_uuid_bytes(uint32_t gpu, unsigned char bytes[16])
{
    static const unsigned char pattern[16] = {0x00, 0x51, 0xca, 0x4d, 0x67, 0x70, 0x40, 0x75,
                                              0x80, 0x63, 0x6f, 0x6e, 0x66, 0x00, 0x00, 0x00};
    memcpy(bytes, pattern, sizeof pattern);
    bytes[0] = (unsigned char)gpu;
    bytes[15] = (unsigned char)gpu;
}

void simcard_uuid(uint32_t gpu, char text[41])
{
    unsigned char bytes[16];
    card_uuid_bytes(gpu, bytes);
    char *end = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) {
        int dash = i == 4 || i == 6 || i == 8 || i == 10;
        end += sprintf(end, "%s%02x", dash ? "-" : "", bytes[i]);
    }
}

void card_pci_bus_id(uint32_t gpu, char text[13])
{
    snprintf(text, 13, "0000:%02x:00.0", (gpu + 1) & 0xff);
}

/* ---- the environment's card ---- */

static struct card_file *environment_card;
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static void open_environment_card(void)
{
    const char *path = getenv(CARD_FILE_VARIABLE);
    if (path == NULL || *path == '\0') {
        fprintf(stderr,
                "gpuconf simulated GPU: no GPU because " CARD_FILE_VARIABLE " is not set\n");
        return;
    }
    int status = simcard_open(path, &environment_card);
    if (status != 0) {
        environment_card = NULL;
        fprintf(stderr, "gpuconf simulated GPU: no GPU in %s: %s\n", path,
                status == -EPROTO ? "not a card file of this version of gpuconf"
                                  : strerror(-status));
    }
}

struct card_file *card_of_environment(void)
{
    pthread_once(&environment_once, open_environment_card);
    return environment_card;
}
