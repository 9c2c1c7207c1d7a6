/* A program of its time: linked to libcudart.so.9.0 by name and symbol version, every symbol bound
 * at its start, a kernel launched as before CUDA 9.2.  "old_runtime launch" launches one. */
#include <stdio.h>
#include <string.h>

struct size {
    unsigned x, y, z;
};
int cudaMalloc(void **where, size_t bytes);
int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
int cudaRuntimeGetVersion(int *version);
void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name);
int cudaConfigureCall(struct size grid, struct size block, size_t shared_bytes, void *stream);
int cudaSetupArgument(const void *argument, size_t bytes, size_t offset);
int cudaLaunch(const void *function);
int cublasSgemm_v2(void);

static int launch(void)
{
    static const char kernel;
    int argument = 7;
    struct size one = {1, 1, 1};
    __cudaRegisterFunction(NULL, &kernel, NULL, "_Z9my_kerneli");
    if (cudaConfigureCall(one, one, 0, NULL) != 0 ||
        cudaSetupArgument(&argument, sizeof argument, 0) != 0)
        return 1;
    printf("launched %d\n", cudaLaunch(&kernel));
    return 0;
}

int main(int count, char **words)
{
    void *where;
    size_t free_bytes, total_bytes;
    int version;
    if (count > 1 && strcmp(words[1], "launch") == 0)
        return launch();
    cudaRuntimeGetVersion(&version);
    printf("%d %d", version, cudaMalloc(&where, (size_t)10 << 30)); /* more than is free */
    printf(" %d", cudaMalloc(&where, (size_t)1 << 30));
    cudaMemGetInfo(&free_bytes, &total_bytes);
    printf(" %zu %d\n", free_bytes >> 20, cublasSgemm_v2());
    fflush(stdout);
    return getchar() == EOF;
}
