/* What the files of libnvidia-ml.so.1 share. */
#pragma once

#include "card.h"
#include "exports.h"

enum nvml_error {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_VERSION_MISMATCH = 25,
    NVML_UNKNOWN = 999,
};

struct device;

const struct card_spec *nvml_spec(void);
/* Turn a handle into a GPU's number, or say why it cannot be. */
int nvml_find_gpu(const struct device *device, uint32_t *gpu);
int nvml_answer(const struct device *device, unsigned *to, unsigned value);
/* A function that answers a question about a device with one number. */
#define NVML_ANSWER(name, value)                               \
    EXPORT int name(const struct device *device, unsigned *to) \
    {                                                          \
        return nvml_answer(device, to, value);                 \
    }
