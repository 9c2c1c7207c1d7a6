"""Which scheduler started a process: Ray workers and Slurm steps can be recognized in /proc.

Ray gives each worker the command line ``ray::Model.train``, and Slurm gives the parent of each
step's tasks ``slurmstepd: [12.0]``.  Every user can read both, unless /proc is mounted with
``hidepid``.
"""

from __future__ import annotations

import re

from gpuconf.basics.processes import is_ending, process_and_ancestors, words_of
from gpuconf.machine.cards.inventory import SCHEDULERS, Gpu


def is_task_of(pid: int, scheduler: str) -> bool:
    """Whether ``scheduler`` has started ``pid`` or one of its ancestors as a task.

    This is false for a program in a terminal and for Ray's own driver.
    """
    title = SCHEDULERS[scheduler].title
    return any(re.match(title, words_of(each)[0]) for each in process_and_ancestors(pid))


def held_outside(gpu: Gpu, scheduler: str, own_pid: int) -> int | None:
    """Return the bytes of ``gpu`` that neither tasks of ``scheduler`` nor ``own_pid`` hold.

    None if NVML has no figures.  Memory that the driver does not attribute to a process (WSL,
    containers) counts as held outside. Memory held by a process that is exiting does not: it will
    soon be free, and the process no longer has a command line that could name its scheduler.
    """
    if gpu.total_bytes is None or gpu.free_bytes is None:
        return None
    inside = sum(
        each.used_bytes or 0
        for each in gpu.processes or ()
        if each.pid == own_pid or is_task_of(each.pid, scheduler) or is_ending(each.pid)
    )
    return max(0, gpu.total_bytes - gpu.free_bytes - inside)
