/* Descriptors of cuDNN's older API: made where cuDNN gives handles, and refused, by name, elsewhere. */
#pragma once

#include "refusals.h"

/* The functions that make and free a descriptor of a `type`, which begins with zeros. */
#define DESCRIPTOR(kind, type)                                                           \
    EXPORT int cudnnCreate##kind##Descriptor(type **made)                                \
    {                                                                                    \
        static _Atomic int said;                                                         \
        *made = gives_handles() ? calloc(1, sizeof **made) : NULL;                       \
        return *made != NULL ? 0 : (int)refuse("cudnnCreate" #kind "Descriptor", &said); \
    }                                                                                    \
    EXPORT int cudnnDestroy##kind##Descriptor(type *made)                                \
    {                                                                                    \
        free(made);                                                                      \
        return 0;                                                                        \
    }
