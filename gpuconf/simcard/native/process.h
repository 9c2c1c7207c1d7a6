/* Which process owns a slot, and whether it still lives. */
#pragma once

#include <stdint.h>

/* Clock ticks from boot to the start of `pid`.  Returns 0, or a negative errno where it cannot be
 * told: -EMFILE in a process that may open no more files. */
int process_start(int32_t pid, uint64_t *start);
/* True while the process with this pid and this start still holds its memory, and where that
 * cannot be told: a wrong "dead" hands its memory out twice, a wrong "alive" lasts until somebody
 * can look. */
int process_is_alive(int32_t pid, uint64_t start);
