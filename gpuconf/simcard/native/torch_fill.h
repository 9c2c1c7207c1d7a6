#ifndef GPUCONF_SIMCARD_TORCH_FILL_H
#define GPUCONF_SIMCARD_TORCH_FILL_H

/* Do what PyTorch's fill kernel of this name does; 0 if it is another kernel. */
int torch_fill(const char *name, void **arguments);

#endif
