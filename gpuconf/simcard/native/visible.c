#include "visible.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define UUID_LENGTH 40
#define NONE (-1)

/* strtol reads blanks, a sign and digits, and does not look at what follows: "1gpu" is 1. */
static int gpu_by_number(const char *entry, uint32_t count)
{
    char *end;
    long number = strtol(entry, &end, 10);
    return end != entry && number >= 0 && number < (long)count ? (int)number : NONE;
}

static int gpu_by_uuid(const char *entry, size_t length, uint32_t count)
{
    int found = NONE;
    for (uint32_t gpu = 0; gpu < count; gpu++) {
        char uuid[UUID_LENGTH + 1];
        simcard_uuid(gpu, uuid);
        if (length > UUID_LENGTH || strncasecmp(entry, uuid, length) != 0)
            continue;
        if (found != NONE)
            return NONE;
        found = (int)gpu;
    }
    return found;
}

static int is_uuid(const char *entry)
{
    return strncmp(entry, "GPU-", 4) == 0;
}

static int gpu_of(const char *entry, int by_uuid, uint32_t count)
{
    if (is_uuid(entry) != by_uuid)
        return NONE;
    return by_uuid ? gpu_by_uuid(entry, strcspn(entry, ","), count) : gpu_by_number(entry, count);
}

int visible_gpus(const char *list, uint32_t count, uint32_t gpus[CARD_MAX_GPUS])
{
    int shown = 0;
    if (list == NULL) {
        for (uint32_t gpu = 0; gpu < count; gpu++)
            gpus[shown++] = gpu;
        return shown;
    }
    for (const char *entry = list; entry != NULL;) {
        int gpu = gpu_of(entry, is_uuid(list), count);
        if (gpu == NONE)
            break;
        for (int i = 0; i < shown; i++)
            if (gpus[i] == (uint32_t)gpu)
                return 0;
        gpus[shown++] = (uint32_t)gpu;
        entry = strchr(entry, ',');
        entry = entry == NULL ? NULL : entry + 1;
    }
    return shown;
}
