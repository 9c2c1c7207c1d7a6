#define _GNU_SOURCE
#include "engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "visible.h"

static struct {
    struct card_file *card;
    pid_t pid; /* 0 until cuInit has worked */
    int count;
    uint32_t gpus[CARD_MAX_GPUS];
} driver;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

static int init_locked(void)
{
    if (driver.pid != 0)
        return engine_ready();
    driver.card = card_of_environment();
    if (driver.card == NULL)
        return CUDA_NO_DEVICE;
    uint32_t count = card_get_spec(driver.card)->count;
    driver.count = visible_gpus(getenv("CUDA_VISIBLE_DEVICES"), count, driver.gpus);
    if (driver.count == 0)
        return CUDA_NO_DEVICE;
    card_forget_before_exec(driver.card);
    driver.pid = getpid();
    return CUDA_OK;
}

int gpuconf_init(void)
{
    pthread_mutex_lock(&init_lock);
    int status = init_locked();
    pthread_mutex_unlock(&init_lock);
    return status;
}

int engine_ready(void)
{
    /* As with the real driver, a forked child cannot use its parent's CUDA. */
    if (driver.pid == 0 || driver.pid != getpid())
        return CUDA_NOT_INITIALIZED;
    return CUDA_OK;
}

int gpuconf_device_count(void)
{
    return driver.count;
}

uint32_t gpuconf_device_gpu(int device)
{
    return driver.gpus[device];
}

void gpuconf_device_uuid(int device, unsigned char uuid[16])
{
    card_uuid_bytes(driver.gpus[device], uuid);
}

void gpuconf_device_bus_id(int device, char bus_id[13])
{
    card_pci_bus_id(driver.gpus[device], bus_id);
}

const struct card_spec *gpuconf_spec(void)
{
    return card_get_spec(driver.card);
}

struct card_file *gpuconf_card(void)
{
    return driver.card;
}

/* CU_DEVICE_ATTRIBUTE_… by number.  The figures are those of a GeForce of compute capability
 * 8.6; what would offer something the simulation lacks (managed memory, memory pools, virtual
 * memory management, clusters, ...) is 0, as is everything not named here. */
static const struct {
    int attribute, value;
} attributes[] = {
    {1, 1024},        /* threads per block */
    {2, 1024},        /* block x, y, z */
    {3, 1024},
    {4, 64},
    {5, 2147483647},  /* grid x, y, z */
    {6, 65535},
    {7, 65535},
    {8, 49152},       /* shared memory per block */
    {9, 65536},       /* constant memory */
    {10, 32},         /* warp */
    {11, 2147483647}, /* pitch */
    {12, 65536},      /* registers per block */
    {13, 1665000},    /* clock, kHz */
    {14, 512},        /* texture alignment */
    {15, 1},          /* copies beside kernels */
    {16, 68},         /* multiprocessors */
    {19, 1},          /* maps host memory */
    {31, 1},          /* concurrent kernels */
    {36, 9501000},    /* memory clock, kHz */
    {37, 320},        /* memory bus, bits */
    {38, 5242880},    /* L2 */
    {39, 1536},       /* threads per multiprocessor */
    {40, 2},          /* copy engines */
    {41, 1},          /* unified addressing */
    {51, 32},         /* texture pitch alignment */
    {78, 1},          /* stream priorities */
    {79, 1},          /* global L1 */
    {80, 1},          /* local L1 */
    {81, 102400},     /* shared memory per multiprocessor */
    {82, 65536},      /* registers per multiprocessor */
    {87, 32},         /* single to double precision */
    {90, 1},          /* compute preemption */
    {91, 1},          /* host pointers for registered memory */
    {97, 101376},     /* shared memory per block, opted in */
    {99, 1},          /* host memory can be registered */
    {102, 1},         /* virtual memory management */
    {106, 16},        /* blocks per multiprocessor */
    {111, 1024},      /* reserved shared memory per block */
    {122, 1},         /* 64-bit memory operations of streams */
    {134, -1},        /* no host NUMA node */
};

int gpuconf_device_attribute(int attribute, int device)
{
    switch (attribute) {
    case 33: /* PCI bus; domain and device are 0 */
        return (int)driver.gpus[device] + 1;
    case 75:
        return (int)gpuconf_spec()->major;
    case 76:
        return (int)gpuconf_spec()->minor;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute)
            return attributes[i].value;
    return 0;
}
