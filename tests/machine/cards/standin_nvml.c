/* A stand-in for libnvidia-ml.so.1: NVML's answers, read from a text file.
 *
 * The file is named by $STANDIN_NVML; standin.py writes it.  One fact a line, "key value":
 * first what holds for the machine, then "gpu" begins a card and "instance" a MIG instance of
 * the last card, and what follows describes it.  A key that ends in "_code" is the
 * nvmlReturn_t that the functions of that kind return instead of an answer.
 *
 * Layouts and return codes are those of NVIDIA's nvml.h.  -DSTANDIN_DRIVER=470 leaves out the
 * functions that came later: an old driver.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, OPERATING_SYSTEM = 17, VERSION_MISMATCH = 25
};
#ifndef STANDIN_DRIVER
#define STANDIN_DRIVER 570
#endif
#define NOT_AVAILABLE (~0ULL)
#define MANY 64

typedef struct {
    unsigned pid;
    char kind[16];
    unsigned long long used_bytes;
    int busy;  /* percent; -1: no sample */
    char name[256];  /* empty: hidden from this user */
} process;

typedef struct {
    int is_instance, parent, mig_mode, gi, ci;
    char name[96], uuid[96], bus[32];
    unsigned long long total, reserved, used;
    int major, minor, display;
    int handle_code, any_code, memory_code, process_code, display_code;
    int busy, busy_process_code;
    int ecc_mode, retirement_pending, remap_pending, remap_failed, compute_mode, recovery;
    unsigned long long ecc_errors;
    int process_count;
    process processes[MANY];
} device;

static struct {
    int init_code, count_code, cuda, started;
    int init_sleep_times;  /* so often in a process an init sleeps; -1: always */
    double init_sleep_s, memory_sleep_s;
    char driver[80], log[1024], call_log[1024];
    int device_count;
    device devices[MANY];
} machine;

static void set_number(const char *key, const char *value, const char *name, int *target) {
    if (strcmp(key, name) == 0) *target = atoi(value);
}

static void set_seconds(const char *key, const char *value, const char *name, double *target) {
    if (strcmp(key, name) == 0) *target = atof(value);
}

static void set_size(const char *key, const char *value, const char *name,
                     unsigned long long *target) {
    if (strcmp(key, name) == 0) *target = strtoull(value, NULL, 10);
}

static void set_text(const char *key, const char *value, const char *name, char *target,
                     size_t size) {
    if (strcmp(key, name) == 0) snprintf(target, size, "%s", value);
}

static void set_of_machine(const char *key, const char *value) {
    set_number(key, value, "init_code", &machine.init_code);
    set_number(key, value, "count_code", &machine.count_code);
    set_number(key, value, "cuda", &machine.cuda);
    set_number(key, value, "init_sleep_times", &machine.init_sleep_times);
    set_seconds(key, value, "init_sleep_s", &machine.init_sleep_s);
    set_seconds(key, value, "memory_sleep_s", &machine.memory_sleep_s);
    set_text(key, value, "call_log", machine.call_log, sizeof machine.call_log);
    set_text(key, value, "driver", machine.driver, sizeof machine.driver);
    set_text(key, value, "log", machine.log, sizeof machine.log);
}

/* "process PID KIND BYTES BUSY NAME", BYTES -1 where unknown, NAME missing where hidden. */
static void add_process(device *d, const char *value) {
    process *p = &d->processes[d->process_count++];
    long long used_bytes = 0;
    sscanf(value, "%u %15s %lld %d %255[^\n]", &p->pid, p->kind, &used_bytes, &p->busy, p->name);
    p->used_bytes = used_bytes < 0 ? NOT_AVAILABLE : (unsigned long long)used_bytes;
}

static void set_of_device(device *d, const char *key, const char *value) {
    set_text(key, value, "name", d->name, sizeof d->name);
    set_text(key, value, "uuid", d->uuid, sizeof d->uuid);
    set_text(key, value, "bus", d->bus, sizeof d->bus);
    set_size(key, value, "total", &d->total);
    set_size(key, value, "reserved", &d->reserved);
    set_size(key, value, "used", &d->used);
    set_number(key, value, "major", &d->major);
    set_number(key, value, "minor", &d->minor);
    set_number(key, value, "display", &d->display);
    set_number(key, value, "mig_mode", &d->mig_mode);
    set_number(key, value, "gi", &d->gi);
    set_number(key, value, "ci", &d->ci);
    set_number(key, value, "handle_code", &d->handle_code);
    set_number(key, value, "any_code", &d->any_code);
    set_number(key, value, "memory_code", &d->memory_code);
    set_number(key, value, "process_code", &d->process_code);
    set_number(key, value, "display_code", &d->display_code);
    set_number(key, value, "ecc_mode", &d->ecc_mode);
    set_size(key, value, "ecc_errors", &d->ecc_errors);
    set_number(key, value, "retirement_pending", &d->retirement_pending);
    set_number(key, value, "remap_pending", &d->remap_pending);
    set_number(key, value, "remap_failed", &d->remap_failed);
    set_number(key, value, "compute_mode", &d->compute_mode);
    set_number(key, value, "recovery", &d->recovery);
    set_number(key, value, "busy", &d->busy);
    set_number(key, value, "busy_process_code", &d->busy_process_code);
    if (strcmp(key, "process") == 0) add_process(d, value);
}

static device *add_device(int is_instance) {
    device *d = &machine.devices[machine.device_count++];
    memset(d, 0, sizeof *d);
    d->is_instance = is_instance;
    d->mig_mode = d->busy = -1;
    for (int i = 0; i < machine.device_count - 1; i++)
        if (!machine.devices[i].is_instance) d->parent = i;
    return d;
}

static int read_machine(void) {
    const char *path = getenv("STANDIN_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[1500];
    device *d = NULL;
    if (file == NULL) return 0;
    memset(&machine, 0, sizeof machine);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, ' ');
        if (value) *value++ = 0; else value = "";
        if (strcmp(line, "gpu") == 0) d = add_device(0);
        else if (strcmp(line, "instance") == 0) d = add_device(1);
        else if (d) set_of_device(d, line, value);
        else set_of_machine(line, value);
    }
    fclose(file);
    return 1;
}

static void append(const char *path, const char *line) {
    FILE *file = path[0] ? fopen(path, "a") : NULL;
    if (file == NULL) return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

/* So that a test can see that whoever started NVML also shut it down. */
static void note(const char *event) { append(machine.log, event); }

/* So that a test can see in which order things were asked. */
static void note_call(const char *function) { append(machine.call_log, function); }

/* A driver that hangs. */
static void hang(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static int start(void) {
    static int inits;
    /* NVML counts its starts; the answers are those of the first. */
    if (!machine.started && !read_machine()) return OPERATING_SYSTEM;
    if (machine.init_sleep_times < 0 || inits < machine.init_sleep_times) {
        inits++;
        hang(machine.init_sleep_s);
    }
    if (machine.init_code != SUCCESS) return machine.init_code;
    machine.started++;
    note("init");
    return SUCCESS;
}

/* What every query of a device begins with. */
static int check(const device *d) {
    if (!machine.started) return UNINITIALIZED;
    return d ? d->any_code : INVALID_ARGUMENT;
}

static int give_text(const char *text, char *buffer, unsigned size) {
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return text[0] ? SUCCESS : NOT_SUPPORTED;
}

#define TRY(code) do { int code_ = (code); if (code_ != SUCCESS) return code_; } while (0)

/* The library itself. */

#if STANDIN_DRIVER >= 396
int nvmlInitWithFlags(unsigned flags) { (void)flags; return start(); }
#endif
int nvmlInit_v2(void) { return start(); }
int nvmlInit(void) { return start(); }

int nvmlShutdown(void) {
    if (!machine.started) return UNINITIALIZED;
    machine.started--;
    note("shutdown");
    return SUCCESS;
}

const char *nvmlErrorString(int code) { (void)code; return "stand-in error"; }

int nvmlSystemGetDriverVersion(char *buffer, unsigned size) {
    if (!machine.started) return UNINITIALIZED;
    return give_text(machine.driver, buffer, size);
}

int nvmlSystemGetNVMLVersion(char *buffer, unsigned size) {
    return give_text("12.570.86.15", buffer, size);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    *version = machine.cuda;
    return machine.cuda ? SUCCESS : NOT_SUPPORTED;
}
#if STANDIN_DRIVER >= 418
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return nvmlSystemGetCudaDriverVersion(version);
}
#endif

int nvmlSystemGetProcessName(unsigned pid, char *buffer, unsigned size) {
    for (int i = 0; i < machine.device_count; i++)
        for (int j = 0; j < machine.devices[i].process_count; j++) {
            process *p = &machine.devices[i].processes[j];
            if (p->pid == pid && p->name[0] == 0) return NO_PERMISSION;
            if (p->pid == pid) return give_text(p->name, buffer, size);
        }
    return NOT_FOUND;
}

/* Finding devices. */

int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!machine.started) return UNINITIALIZED;
    *count = 0;
    for (int i = 0; i < machine.device_count; i++) *count += !machine.devices[i].is_instance;
    return machine.count_code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **handle) {
    if (!machine.started) return UNINITIALIZED;
    for (int i = 0; i < machine.device_count; i++) {
        if (machine.devices[i].is_instance || index-- != 0) continue;
        *handle = &machine.devices[i];
        return machine.devices[i].handle_code;
    }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **handle) {
    for (int i = 0; i < machine.device_count; i++) {
        if (strcmp(machine.devices[i].uuid, uuid) != 0) continue;
        *handle = &machine.devices[i];
        return machine.devices[i].handle_code;
    }
    return NOT_FOUND;
}

/* Describing one. */

int nvmlDeviceGetName(device *d, char *buffer, unsigned size) {
    TRY(check(d));
    return give_text(d->name, buffer, size);
}

int nvmlDeviceGetUUID(device *d, char *buffer, unsigned size) {
    TRY(check(d));
    return give_text(d->uuid, buffer, size);
}

int nvmlDeviceGetIndex(device *d, unsigned *index) {
    TRY(check(d));
    *index = 0;
    for (device *other = machine.devices; other < d; other++)
        *index += other->is_instance == d->is_instance && other->parent == d->parent;
    return SUCCESS;
}

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;

int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *info) {
    note_call("memory");
    TRY(check(d));
    hang(machine.memory_sleep_s);
    TRY(d->memory_code);
    info->total = d->total;
    info->used = d->used + d->reserved;
    info->free = d->total - info->used;
    return SUCCESS;
}
#if STANDIN_DRIVER >= 510
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *info) {
    if (info->version != (sizeof *info | 2 << 24)) return VERSION_MISMATCH;
    note_call("memory");
    TRY(check(d));
    hang(machine.memory_sleep_s);
    TRY(d->memory_code);
    info->total = d->total;
    info->reserved = d->reserved;
    info->used = d->used;
    info->free = d->total - d->used - d->reserved;
    return SUCCESS;
}
#endif

int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
    TRY(check(d));
    *major = d->major;
    *minor = d->minor;
    return d->major ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetDisplayActive(device *d, unsigned *active) {
    TRY(check(d));
    *active = (unsigned)d->display;
    return d->is_instance ? NOT_SUPPORTED : d->display_code;
}

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_info;

int nvmlDeviceGetPciInfo_v3(device *d, pci_info *info) {
    TRY(check(d));
    memset(info, 0, sizeof *info);
    return give_text(d->bus, info->bus_id, sizeof info->bus_id);
}

/* How busy it is, and who keeps it so. */

int nvmlDeviceGetUtilizationRates(device *d, unsigned rates[2]) {
    TRY(check(d));
    rates[0] = rates[1] = (unsigned)d->busy;
    return d->busy < 0 ? NOT_SUPPORTED : SUCCESS;
}

typedef struct {
    unsigned pid;
    unsigned long long timestamp;
    unsigned sm, memory, encoder, decoder;
} process_sample;

int nvmlDeviceGetProcessUtilization(device *d, process_sample *samples, unsigned *count,
                                    unsigned long long since) {
    unsigned found = 0;
    TRY(check(d));
    TRY(d->busy < 0 ? NOT_SUPPORTED : d->busy_process_code);
    for (int i = 0; i < d->process_count; i++) {
        if (d->processes[i].busy < 0) continue;
        if (samples && found < *count)
            samples[found] = (process_sample){
                .pid = d->processes[i].pid, .timestamp = since + 1,
                .sm = (unsigned)d->processes[i].busy};
        found++;
    }
    unsigned room = samples ? *count : 0;
    *count = found;
    return found == 0 ? NOT_FOUND : found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* Its troubles.  ecc_mode -1 is a card without ECC. */

int nvmlDeviceGetEccMode(device *d, unsigned *current, unsigned *pending) {
    TRY(check(d));
    *current = *pending = (unsigned)d->ecc_mode;
    return d->ecc_mode < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(device *d, unsigned kind, unsigned counter,
                                unsigned long long *count) {
    TRY(check(d));
    *count = kind == 1 && counter == 0 ? d->ecc_errors : 0;
    return d->ecc_mode == 1 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetRetiredPagesPendingStatus(device *d, unsigned *pending) {
    TRY(check(d));
    *pending = (unsigned)d->retirement_pending;
    return d->ecc_mode < 0 || d->major >= 8 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetComputeMode(device *d, unsigned *mode) {
    TRY(check(d));
    *mode = (unsigned)d->compute_mode;
    return SUCCESS;
}
#if STANDIN_DRIVER >= 450
int nvmlDeviceGetRemappedRows(device *d, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed) {
    TRY(check(d));
    *corrected = *uncorrected = 0;
    *pending = (unsigned)d->remap_pending;
    *failed = (unsigned)d->remap_failed;
    return d->ecc_mode < 0 || d->major < 8 ? NOT_SUPPORTED : SUCCESS;
}
#endif

/* nvmlFieldValue_t; of the fields only NVML_FI_DEV_GET_GPU_RECOVERY_ACTION is known, since R570. */
typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type, code;
    union { double d; unsigned ui; unsigned long long ull; } value;
} field_value;

int nvmlDeviceGetFieldValues(device *d, int count, field_value *values) {
    TRY(check(d));
    for (int i = 0; i < count; i++) {
        int known = values[i].field == 230 && STANDIN_DRIVER >= 570;
        values[i].code = known ? SUCCESS : NOT_SUPPORTED;
        values[i].value.ui = (unsigned)d->recovery;
    }
    return SUCCESS;
}

/* MIG. */

#if STANDIN_DRIVER >= 450
int nvmlDeviceGetMigMode(device *d, unsigned *current, unsigned *pending) {
    TRY(check(d));
    *current = *pending = (unsigned)d->mig_mode;
    return d->mig_mode < 0 ? NOT_SUPPORTED : SUCCESS;
}

/* Seven places, as an A100 has, of which the first and the last ones are empty. */
int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *count) {
    TRY(check(d));
    *count = d->mig_mode < 0 ? 0 : 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **handle) {
    TRY(check(d));
    if (index == 0) return NOT_FOUND;
    for (int i = 0; i < machine.device_count; i++) {
        device *other = &machine.devices[i];
        if (!other->is_instance || &machine.devices[other->parent] != d || --index) continue;
        *handle = other;
        return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceIsMigDeviceHandle(device *d, unsigned *answer) {
    TRY(check(d));
    *answer = (unsigned)d->is_instance;
    return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device *d, device **handle) {
    TRY(check(d));
    *handle = &machine.devices[d->parent];
    return d->is_instance ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetGpuInstanceId(device *d, unsigned *id) {
    TRY(check(d));
    *id = (unsigned)d->gi;
    return d->is_instance ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetComputeInstanceId(device *d, unsigned *id) {
    TRY(check(d));
    *id = (unsigned)d->ci;
    return d->is_instance ? SUCCESS : INVALID_ARGUMENT;
}
#endif

/* Who holds memory. */

typedef struct {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gi, ci;
} process_info;

#if STANDIN_DRIVER >= 450
static int list(device *d, const char *kind, unsigned *count, process_info *infos) {
    unsigned found = 0;
    note_call("processes");
    TRY(check(d));
    TRY(d->process_code);
    for (int i = 0; i < d->process_count; i++) {
        process *p = &d->processes[i];
        if (strcmp(p->kind, kind) != 0) continue;
        if (infos && found < *count)
            infos[found] = (process_info){p->pid, p->used_bytes, ~0U, ~0U};
        found++;
    }
    int fits = found <= *count && (infos || found == 0);
    *count = found;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v2(device *d, unsigned *count, process_info *infos) {
    return list(d, "compute", count, infos);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(device *d, unsigned *count, process_info *infos) {
    return list(d, "graphics", count, infos);
}
#endif
#if STANDIN_DRIVER >= 510
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *count, process_info *infos) {
    return list(d, "compute", count, infos);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, unsigned *count, process_info *infos) {
    return list(d, "graphics", count, infos);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(device *d, unsigned *count, process_info *infos) {
    return list(d, "mps", count, infos);
}
#endif
