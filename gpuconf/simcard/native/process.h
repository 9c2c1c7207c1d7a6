/* Which process owns a slot, and whether it still lives. */
#ifndef GPUCONF_SIMCARD_PROCESS_H
#define GPUCONF_SIMCARD_PROCESS_H

#include <stdint.h>

/* Clock ticks from boot to the start of `pid`; 0 if there is no such process. */
uint64_t process_start(int32_t pid);
/* True while the process with this pid and this start still holds its memory. */
int process_is_alive(int32_t pid, uint64_t start);

#endif
