/* What the files of libcudart.so.12 and libcudart.so.13 share. */
#pragma once

#ifndef CUDA_MAJOR
#error "build with -DCUDA_MAJOR=12 or 13"
#endif

/* Keep an error for cudaGetLastError, and return it. */
int runtime_note(int error);
/* CUDA_OK, or why no call can work: a driver that is older than the runtime, too. */
int runtime_init(void);
/* CUDA_INVALID_DEVICE, or why no call can work now. */
int runtime_check_device(int device);
/* The thread's device, whose context the runtime makes when it first needs it. */
int runtime_enter_device(int *device);
