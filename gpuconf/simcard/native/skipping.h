/* What the stand-ins of cuDNN and cuBLAS ask the driver's: whether kernels are skipped just now. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "exports.h"

/* Whether XLA may compile here (gpuconf/simcard/xla.py): it does nothing without handles of these
 * libraries, and asks them which algorithms there are. */
static inline int has_xla(void)
{
    return getenv("GPUCONF_SIMCARD_XLA") != NULL;
}

/* Whether a product or a convolution may be left undone, as kernels are. */
static inline int work_is_skipped(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = driver == NULL ? NULL : dlsym(driver, "gpuconf_work_is_skipped");
    int (*question)(void);
    memcpy(&question, &symbol, sizeof question); /* ISO C has no cast from data to function */
    if (driver != NULL)
        dlclose(driver);
    return question != NULL && question();
}

/* Whether somebody goes on without what is computed: XLA, which only compiles, or a program whose
 * kernels do not run anyway.  What frameworks allocate for it, workspaces too, is then the same. */
static inline int gives_handles(void)
{
    return has_xla() || work_is_skipped();
}
