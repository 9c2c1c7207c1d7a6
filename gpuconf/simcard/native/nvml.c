/* libnvidia-ml.so.1: the card file seen as NVML shows GPUs.  What a GeForce does not support is
 * answered "not supported"; a function left out looks like a driver too old for it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "card.h"
#include "nvml.h"

/* A handle is the address of one of these; its place is the GPU's number. */
struct device {
    char unused;
};

static struct device devices[CARD_MAX_GPUS];
static int users; /* nvmlInit minus nvmlShutdown */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;

static int started(void)
{
    pthread_mutex_lock(&users_lock);
    int answer = users > 0;
    pthread_mutex_unlock(&users_lock);
    return answer;
}

const struct card_spec *nvml_spec(void)
{
    return card_get_spec(card_of_environment());
}

/* Turn a handle into a GPU's number, or say why it cannot be. */
int nvml_find_gpu(const struct device *device, uint32_t *gpu)
{
    if (!started())
        return NVML_UNINITIALIZED;
    if (device < devices || device >= devices + nvml_spec()->count)
        return NVML_INVALID_ARGUMENT;
    *gpu = (uint32_t)(device - devices);
    return NVML_OK;
}

static int put_text(char *to, unsigned room, const char *text)
{
    if (strlen(text) >= room)
        return NVML_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_OK;
}

/* ---- start and system ---- */

EXPORT int nvmlInit_v2(void)
{
    if (card_of_environment() == NULL)
        return NVML_DRIVER_NOT_LOADED;
    pthread_mutex_lock(&users_lock);
    users++;
    pthread_mutex_unlock(&users_lock);
    return NVML_OK;
}
SAME(nvmlInit, nvmlInit_v2)
SAME(nvmlInitWithFlags, nvmlInit_v2)

EXPORT int nvmlShutdown(void)
{
    pthread_mutex_lock(&users_lock);
    int status = users > 0 ? NVML_OK : NVML_UNINITIALIZED;
    if (users > 0)
        users--;
    pthread_mutex_unlock(&users_lock);
    return status;
}

EXPORT const char *nvmlErrorString(int error)
{
    static const struct {
        int error;
        const char *text;
    } texts[] = {
        {NVML_OK, "Success"},
        {NVML_UNINITIALIZED, "Uninitialized"},
        {NVML_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_NOT_SUPPORTED, "Not Supported"},
        {NVML_NOT_FOUND, "Not Found"},
        {NVML_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_DRIVER_NOT_LOADED, "Driver Not Loaded"},
        {NVML_VERSION_MISMATCH, "Argument Version Mismatch"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].error == error)
            return texts[i].text;
    return "Unknown Error";
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned room)
{
    return started() ? put_text(version, room, nvml_spec()->driver_version) : NVML_UNINITIALIZED;
}

EXPORT int nvmlSystemGetNVMLVersion(char *version, unsigned room)
{
    char text[48];
    if (!started())
        return NVML_UNINITIALIZED;
    snprintf(text, sizeof text, "%u.%s", nvml_spec()->cuda_version / 1000, nvml_spec()->driver_version);
    return put_text(version, room, text);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!started())
        return NVML_UNINITIALIZED;
    *version = (int)nvml_spec()->cuda_version;
    return NVML_OK;
}
SAME(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2)

/* The program's path, as far as /proc tells it. */
EXPORT int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned room)
{
    char path[40];
    if (!started())
        return NVML_UNINITIALIZED;
    if (room == 0)
        return NVML_INVALID_ARGUMENT;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NVML_NOT_FOUND;
    ssize_t length = read(fd, name, room - 1);
    close(fd);
    name[length < 0 ? 0 : length] = '\0';
    return NVML_OK;
}

/* ---- finding devices ---- */

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!started())
        return NVML_UNINITIALIZED;
    *count = nvml_spec()->count;
    return NVML_OK;
}
SAME(nvmlDeviceGetCount, nvmlDeviceGetCount_v2)

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
    if (!started())
        return NVML_UNINITIALIZED;
    if (index >= nvml_spec()->count)
        return NVML_INVALID_ARGUMENT;
    *device = &devices[index];
    return NVML_OK;
}
SAME(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2)

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device)
{
    if (!started())
        return NVML_UNINITIALIZED;
    for (uint32_t gpu = 0; gpu < nvml_spec()->count; gpu++) {
        char text[41];
        simcard_uuid(gpu, text);
        if (strcasecmp(text, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2(gpu, device);
    }
    return NVML_NOT_FOUND;
}

/* NVML writes the PCI domain with eight digits, CUDA with four; both are taken. */
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device)
{
    unsigned domain, bus, slot, function;
    if (!started())
        return NVML_UNINITIALIZED;
    if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        return NVML_INVALID_ARGUMENT;
    if (domain != 0 || bus < 1 || bus > nvml_spec()->count || slot != 0 || function != 0)
        return NVML_NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}
SAME(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2)

/* ---- what a device is ---- */

EXPORT int nvmlDeviceGetIndex(const struct device *device, unsigned *index)
{
    return nvml_find_gpu(device, index);
}
SAME(nvmlDeviceGetMinorNumber, nvmlDeviceGetIndex)

EXPORT int nvmlDeviceGetName(const struct device *device, char *name, unsigned room)
{
    uint32_t gpu;
    int status = nvml_find_gpu(device, &gpu);
    return status == NVML_OK ? put_text(name, room, nvml_spec()->name) : status;
}

EXPORT int nvmlDeviceGetUUID(const struct device *device, char *uuid, unsigned room)
{
    uint32_t gpu;
    char text[41];
    int status = nvml_find_gpu(device, &gpu);
    if (status != NVML_OK)
        return status;
    simcard_uuid(gpu, text);
    return put_text(uuid, room, text);
}

struct pci_info {
    char short_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(const struct device *device, struct pci_info *info)
{
    uint32_t gpu;
    int status = nvml_find_gpu(device, &gpu);
    if (status != NVML_OK)
        return status;
    memset(info, 0, sizeof *info);
    card_pci_bus_id(gpu, info->short_bus_id);
    snprintf(info->bus_id, sizeof info->bus_id, "0000%s", info->short_bus_id);
    info->bus = gpu + 1;
    return NVML_OK;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(const struct device *device, int *major, int *minor)
{
    uint32_t gpu;
    int status = nvml_find_gpu(device, &gpu);
    if (status != NVML_OK)
        return status;
    *major = (int)nvml_spec()->major;
    *minor = (int)nvml_spec()->minor;
    return NVML_OK;
}

/* ---- its modes, the same for every simulated GPU ---- */

int nvml_answer(const struct device *device, unsigned *to, unsigned value)
{
    uint32_t gpu;
    int status = nvml_find_gpu(device, &gpu);
    if (status == NVML_OK)
        *to = value;
    return status;
}

/* The first GPU drives the display: gpuconf's story is a card that the desktop shares. */
NVML_ANSWER(nvmlDeviceGetDisplayActive, device == &devices[0])
NVML_ANSWER(nvmlDeviceGetDisplayMode, device == &devices[0])
NVML_ANSWER(nvmlDeviceGetPersistenceMode, 0)
NVML_ANSWER(nvmlDeviceGetComputeMode, 0)
NVML_ANSWER(nvmlDeviceGetMaxMigDeviceCount, 0)
NVML_ANSWER(nvmlDeviceIsMigDeviceHandle, 0)

#define REFUSE(name)                                            \
    EXPORT int name(const struct device *device)                \
    {                                                           \
        uint32_t gpu;                                           \
        int status = nvml_find_gpu(device, &gpu);               \
        return status == NVML_OK ? NVML_NOT_SUPPORTED : status; \
    }

REFUSE(nvmlDeviceGetMigMode)
REFUSE(nvmlDeviceGetEccMode)
REFUSE(nvmlDeviceGetUtilizationRates) /* nothing is computed, so there is no honest figure */

/* TensorFlow asks for these to guess at bandwidths. */
NVML_ANSWER(nvmlDeviceGetCurrPcieLinkWidth, 16)
NVML_ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, 4)
REFUSE(nvmlDeviceGetNvLinkCapability)
REFUSE(nvmlDeviceGetNvLinkState)
REFUSE(nvmlDeviceGetGpuFabricInfoV)

/* nvmlFieldValue_t; each field has its own return code. */
struct field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    int type, status;
    long long value;
};

EXPORT int nvmlDeviceGetFieldValues(const struct device *device, int count, struct field_value *values)
{
    uint32_t gpu;
    int status = nvml_find_gpu(device, &gpu);
    for (int place = 0; status == NVML_OK && place < count; place++)
        values[place].status = NVML_NOT_SUPPORTED;
    return status;
}

/* Confidential computing is off: environment, feature and tools of nvmlConfComputeSystemState_t. */
EXPORT int nvmlSystemGetConfComputeState(unsigned state[3])
{
    if (!started())
        return NVML_UNINITIALIZED;
    memset(state, 0, 3 * sizeof state[0]);
    return NVML_OK;
}
