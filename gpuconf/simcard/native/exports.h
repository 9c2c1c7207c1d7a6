/* How the stand-ins define the functions of NVIDIA's libraries.  They look at few of the arguments. */
#pragma once

#define EXPORT __attribute__((visibility("default")))

/* A function that succeeds. */
#define ACCEPT(name)      \
    EXPORT int name(void) \
    {                     \
        return 0;         \
    }

/* A function that does the same as another of its file, for the same first arguments. */
#define SAME(name, other) EXPORT __typeof__(other) name __attribute__((alias(#other)));
