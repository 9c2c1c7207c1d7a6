/* libgpuconf_device_files.so, for LD_PRELOAD: JAX makes no CUDA client unless /dev/nvidia0 exists
 * (jax/_src/hardware_utils.py).  Who asks about that path is shown /dev/null.  The __xstat names are
 * what stat() calls in a Python that was built with a glibc older than 2.33. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "exports.h"

static const char *shown(const char *path)
{
    return path != NULL && strcmp(path, "/dev/nvidia0") == 0 ? "/dev/null" : path;
}

EXPORT int stat(const char *restrict path, struct stat *restrict found)
{
    return fstatat(AT_FDCWD, shown(path), found, 0);
}

EXPORT int stat64(const char *restrict path, struct stat64 *restrict found)
{
    return fstatat64(AT_FDCWD, shown(path), found, 0);
}

EXPORT int __xstat(int version, const char *path, struct stat *found)
{
    return fstatat(AT_FDCWD, shown(path), found, 0);
}

EXPORT int __xstat64(int version, const char *path, struct stat64 *found)
{
    return fstatat64(AT_FDCWD, shown(path), found, 0);
}
