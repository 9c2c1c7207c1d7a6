/* The card file: one small shared file that is "the machine's GPUs" for every process.
 *
 * The stand-in driver, the stand-in NVML and gpuconf's Python side all map this file, so they
 * cannot disagree.  It holds what each simulated GPU is (name, total memory, ...), how much "the
 * desktop" uses, and one slot per process that has a context.  The memory in use is never
 * stored as a sum: it is added up from the slots at each look, so a process killed half-way
 * through an update cannot leave a wrong total behind.
 */
#pragma once

#include <stdint.h>

#include "exports.h"

#define CARD_MAX_GPUS 16
#define CARD_MAX_PROCESSES 256
#define CARD_FILE_VARIABLE "GPUCONF_SIMCARD_FILE"
#define CARD_CONTEXT_VARIABLE "GPUCONF_SIMCARD_CONTEXT_MIB"

/* What the cards are; `CardSpec` in card.py is its twin, field by field. */
/* What NVML says of the processes on a card: everything, as on native Linux; not what each uses, as
 * under WDDM and WSL2; the host's pids, as in a container; no process at all, as in a vGPU guest. */
enum card_processes {
    CARD_PROCESSES_EXACT,
    CARD_PROCESSES_UNKNOWN,
    CARD_PROCESSES_HOST_PIDS,
    CARD_PROCESSES_NONE,
};

struct card_spec {
    uint64_t total_bytes;   /* of each GPU */
    uint64_t used_bytes;    /* taken by the desktop, on each GPU */
    uint64_t context_bytes; /* counted for each process and GPU once it has a context */
    uint32_t count;
    uint32_t major, minor;  /* compute capability */
    uint32_t cuda_version;  /* as cuDriverGetVersion gives it: 12080 is 12.8 */
    uint32_t processes;     /* enum card_processes */
    uint32_t unified;       /* the machine's memory, of which NVML says nothing */
    char name[96];
    char driver_version[32];
};

/* What one process has on one GPU. */
struct card_process {
    uint64_t bytes;
    int32_t pid;
    uint32_t reserved;
};

struct card_file;

/* All functions below return 0 or a count; on failure a negative errno, -EPROTO for a file that
 * is no card file of this layout. */
EXPORT int simcard_create(const char *path, const struct card_spec *spec);
EXPORT int simcard_open(const char *path, struct card_file **card);
EXPORT void simcard_close(struct card_file *card);
EXPORT void simcard_describe(const struct card_file *card, struct card_spec *spec);
EXPORT int simcard_set_desktop(struct card_file *card, uint32_t gpu, uint64_t bytes);
EXPORT int simcard_used(struct card_file *card, uint32_t gpu, uint64_t *used_bytes);
EXPORT int simcard_processes(struct card_file *card, uint32_t gpu, struct card_process *found,
                             int room);
/* "GPU-…" text of one GPU, 41 bytes with its end. */
EXPORT void simcard_uuid(uint32_t gpu, char text[41]);

void card_uuid_bytes(uint32_t gpu, unsigned char bytes[16]);
void card_pci_bus_id(uint32_t gpu, char text[13]);

/* The card file named by the environment, opened once per process; NULL if there is none (one
 * line on stderr says why). */
struct card_file *card_of_environment(void);
const struct card_spec *card_get_spec(const struct card_file *card);

/* Called when the driver starts: what a program had before it exec'ed this one is gone. */
void card_forget_before_exec(struct card_file *card);

/* The calling process's own use.  `card_take` is refused (-ENOMEM) beyond what is free, and where
 * the process can be given no slot (a line on stderr says why). */
int card_take(struct card_file *card, uint32_t gpu, uint64_t bytes);
void card_give_back(struct card_file *card, uint32_t gpu, uint64_t bytes);
int card_enter_context(struct card_file *card, uint32_t gpu);
void card_leave_context(struct card_file *card, uint32_t gpu);
