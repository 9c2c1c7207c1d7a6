/* Functions of NVIDIA's libraries that a simulated card does not have and a wheel does not load
 * without.  Each says its name when first called and returns an error of its library. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *beginning;
    int status;
} errors[] = {
    {"cublas", 15},  {"cusolver", 9},   {"cusparseLt", 10}, {"cusparse", 10},
    {"cufft", 16},   {"cudnn", 3000},   {"nccl", 2},        {"nvrtc", 11},
    {"cuda", 801},   {"curand", 203},   {"cuFile", 5001},   {"nvshmem", 1},
    {"cupti", 999},  {"nvJitLink", 1},  {"cu", 801},        {"", 1},
};

static int refuse(const char *name, _Atomic int *said)
{
    if (!atomic_exchange(said, 1))
        fprintf(stderr, "gpuconf simulated card: no %s here, it returns an error\n", name);
    name += strspn(name, "_");
    for (size_t i = 0;; i++)
        if (strncmp(name, errors[i].beginning, strlen(errors[i].beginning)) == 0)
            return errors[i].status;
}

/* Arguments are not looked at. */
#define REFUSE(name)                                            \
    __attribute__((visibility("default"))) int name(void)       \
    {                                                           \
        static _Atomic int said;                                \
        return refuse(#name, &said);                            \
    }
