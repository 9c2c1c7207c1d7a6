"""Which scheduler started a process: Ray workers and Slurm steps can be recognized in /proc.

Ray gives each worker the command line ``ray::Model.train``, and Slurm gives the parent of each
step's tasks ``slurmstepd: [12.0]``.  Every user can read both, unless /proc is mounted with
``hidepid``.
"""

from __future__ import annotations

import re

from gpuconf.hardware.ancestry import lineage_of, stat_of, words_of
from gpuconf.hardware.inventory import RAY, SLURM, Gpu
from gpuconf.records import NamedTuple

_VSIZE = 20  # index of the address space size in the fields of `stat_of`
_TITLES = {
    RAY: re.compile(r"ray::(?P<name>\S{1,200})"),
    SLURM: re.compile(r"slurmstepd: \[(?P<name>[^\]]{1,100})\]"),
}


class Task(NamedTuple):
    """A scheduler's task: ``name`` is Ray's name of the worker, or Slurm's name of the step."""

    scheduler: str
    name: str


def task_of(pid: int, scheduler: str | None = None) -> Task | None:
    """Return the task that ``pid`` or one of its ancestors is; only of ``scheduler``, if given.

    None if no scheduler started it: a program in a terminal, or Ray's own driver.
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
    """Return the bytes of ``gpu`` that neither tasks of ``scheduler`` nor ``own_pid`` hold.

    None if NVML has no figures.  Memory that the driver does not attribute to a process (WSL,
    containers) counts as held outside.  Memory of a process that is ending does not: it will soon
    be free, and the process no longer has a command line that could name its scheduler.
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
    """Whether a process has released its address space: it is exiting, or a zombie."""
    fields = stat_of(pid)
    return fields is not None and fields[_VSIZE] == "0"
