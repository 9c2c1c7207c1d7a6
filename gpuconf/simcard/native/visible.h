/* CUDA_VISIBLE_DEVICES, read as the CUDA driver reads it. */
#pragma once

#include "card.h"

/* Fill `gpus` with the GPUs that `list` shows, in its order, out of `count`; return how many.
 * NULL shows all, the empty text none.  An entry is a number or a UUID, which may be cut short
 * while it stays unique ("GPU-01").  The first invalid entry (negative, too large, unknown,
 * ambiguous, or of the other kind than the first) ends the list; a repeat empties it.
 * Sources: CUDA C++ Programming Guide, "CUDA Environment Variables"; PyTorch's imitation of the
 * driver (pytorch#90543).  gpuconf/machine/cards/visible_devices.py reads the variable alike. */
int visible_gpus(const char *list, uint32_t count, uint32_t gpus[CARD_MAX_GPUS]);
