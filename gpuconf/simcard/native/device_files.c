/* libgpuconf_devices.so, for LD_PRELOAD: JAX (since 0.4.x, jax/_src/hardware_utils.py) makes no
 * CUDA client unless /dev/nvidia0 exists.  Whoever asks for that path is shown /dev/null. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))

static const char *shown(const char *path)
{
    return path != NULL && strcmp(path, "/dev/nvidia0") == 0 ? "/dev/null" : path;
}

EXPORT int stat(const char *restrict path, struct stat *restrict found)
{
    return fstatat(-100 /* AT_FDCWD */, shown(path), found, 0);
}

EXPORT int stat64(const char *restrict path, struct stat64 *restrict found)
{
    return fstatat64(-100, shown(path), found, 0);
}
