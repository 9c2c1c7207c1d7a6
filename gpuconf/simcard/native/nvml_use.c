/* libnvidia-ml.so.1: how much memory is in use, and by which processes. */
#include "nvml.h"

/* ---- memory ---- */

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(const struct device *device, struct memory *memory)
{
    uint32_t gpu;
    uint64_t used;
    int status = nvml_find_gpu(device, &gpu);
    if (status != NVML_OK)
        return status;
    if (nvml_spec()->unified)
        return NVML_NOT_SUPPORTED;
    if (simcard_used(card_of_environment(), gpu, &used) != 0)
        return NVML_UNKNOWN;
    *memory = (struct memory){nvml_spec()->total_bytes, nvml_spec()->total_bytes - used, used};
    return NVML_OK;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(const struct device *device, struct memory_v2 *memory)
{
    struct memory plain;
    if (memory->version != (sizeof *memory | 2u << 24))
        return NVML_VERSION_MISMATCH;
    int status = nvmlDeviceGetMemoryInfo(device, &plain);
    if (status != NVML_OK)
        return status;
    memory->total = plain.total;
    memory->reserved = 0;
    memory->free = plain.free;
    memory->used = plain.used;
    return NVML_OK;
}

/* ---- processes ---- */

struct process_v1 {
    unsigned pid;
    unsigned long long bytes;
};

struct process_v3 { /* and v2 */
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

#define NO_INSTANCE 0xffffffffu
#define NOT_AVAILABLE (~0ull) /* NVML_VALUE_NOT_AVAILABLE */
#define HOST_PIDS_FROM (1 << 22) /* PID_MAX_LIMIT: no process here has such a number */

/* Read the processes; `*count` goes in as the room there is and comes out as their number. */
static int list_processes(const struct device *device, unsigned *count,
                          struct card_process found[CARD_MAX_PROCESSES])
{
    uint32_t gpu;
    int status = nvml_find_gpu(device, &gpu);
    if (status != NVML_OK)
        return status;
    int number = simcard_processes(card_of_environment(), gpu, found, CARD_MAX_PROCESSES);
    if (number < 0)
        return NVML_UNKNOWN;
    uint32_t processes = nvml_spec()->processes;
    if (processes == CARD_PROCESSES_NONE)
        number = 0;
    for (int i = 0; i < number; i++) {
        if (processes == CARD_PROCESSES_UNKNOWN)
            found[i].bytes = NOT_AVAILABLE;
        if (processes == CARD_PROCESSES_HOST_PIDS)
            found[i].pid += HOST_PIDS_FROM;
    }
    unsigned room = *count;
    *count = (unsigned)number;
    return (unsigned)number > room ? NVML_INSUFFICIENT_SIZE : NVML_OK;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const struct device *device, unsigned *count,
                                                   struct process_v3 *processes)
{
    struct card_process found[CARD_MAX_PROCESSES];
    int status = list_processes(device, count, found);
    for (unsigned i = 0; status == NVML_OK && i < *count; i++)
        processes[i] = (struct process_v3){(unsigned)found[i].pid, found[i].bytes, NO_INSTANCE,
                                           NO_INSTANCE};
    return status;
}
SAME(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3)

EXPORT int nvmlDeviceGetComputeRunningProcesses(const struct device *device, unsigned *count,
                                                struct process_v1 *processes)
{
    struct card_process found[CARD_MAX_PROCESSES];
    int status = list_processes(device, count, found);
    for (unsigned i = 0; status == NVML_OK && i < *count; i++)
        processes[i] = (struct process_v1){(unsigned)found[i].pid, found[i].bytes};
    return status;
}

/* The desktop's memory belongs to no process that could be named, as seen from a container. */
NVML_ANSWER(nvmlDeviceGetGraphicsRunningProcesses_v3, 0)
NVML_ANSWER(nvmlDeviceGetGraphicsRunningProcesses_v2, 0)
NVML_ANSWER(nvmlDeviceGetGraphicsRunningProcesses, 0)
NVML_ANSWER(nvmlDeviceGetMPSComputeRunningProcesses_v3, 0)

/* ---- NVLink: none ---- */

EXPORT int nvmlDeviceGetP2PStatus(void)
{
    return NVML_NOT_SUPPORTED;
}
SAME(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetP2PStatus)
SAME(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDeviceGetP2PStatus)
