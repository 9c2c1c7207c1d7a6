"""Which scheduler started a process: Ray's workers and Slurm's steps bear it in /proc.

Ray gives each worker the command line ``ray::Model.train``, and Slurm the parent of each step's
tasks ``slurmstepd: [12.0]``.  Every user may read both, unless /proc is mounted with ``hidepid``.
"""

from __future__ import annotations

import re

from gpuconf.hardware.ancestry import lineage_of, stat_of, words_of
from gpuconf.hardware.inventory import RAY, SLURM, Gpu
from gpuconf.records import NamedTuple

_VSIZE = 20  # of the fields of `stat_of`, the size of the address space
_TITLES = {
    RAY: re.compile(r"ray::(?P<name>\S{1,200})"),
    SLURM: re.compile(r"slurmstepd: \[(?P<name>[^\]]{1,100})\]"),
}


class Task(NamedTuple):
    """What a scheduler runs: ``name`` is Ray's name of the worker, or Slurm's of the step."""

    scheduler: str
    name: str


def task_of(pid: int, scheduler: str | None = None) -> Task | None:
    """The task that ``pid`` or a process it descends from is; of ``scheduler`` alone, if given.

    None for all that no scheduler started: a program at a terminal, Ray's own driver.
    """
    wanted = _TITLES if scheduler is None else {scheduler: _TITLES[scheduler]}
    for each in lineage_of(pid):
        title = (words_of(each) or [""])[0]
        for name, pattern in wanted.items():
            found = pattern.match(title)
            if found is not None:
                return Task(name, found["name"])
    return None


def held_outside(gpu: Gpu, scheduler: str, own_pid: int) -> int | None:
    """The bytes of ``gpu`` that neither tasks of ``scheduler`` nor ``own_pid`` hold.

    None where NVML has no figures.  What the driver does not tell apart (WSL, containers) counts
    as held outside.  What a process holds that is ending does not: it will be free in a moment,
    and the process has no command line any more that could name its scheduler.
    """
    if gpu.total_bytes is None or gpu.free_bytes is None:
        return None
    inside = sum(
        each.used_bytes or 0
        for each in gpu.processes or ()
        if each.pid == own_pid or task_of(each.pid, scheduler) is not None or _is_ending(each.pid)
    )
    return max(0, gpu.total_bytes - gpu.free_bytes - inside)


def _is_ending(pid: int) -> bool:
    """Whether a process has given up its address space: it is exiting, or a zombie."""
    fields = stat_of(pid)
    return fields is not None and fields[_VSIZE] == "0"
