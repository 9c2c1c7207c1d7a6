/* What the files of libcudart.so.12 share. */
#ifndef GPUCONF_SIMCARD_CUDA_RUNTIME_H
#define GPUCONF_SIMCARD_CUDA_RUNTIME_H

/* Keep an error for cudaGetLastError, and return it. */
int runtime_note(int error);

#endif
