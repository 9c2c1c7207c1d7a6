"""What a scheduler's programs and others hold, as NVML and /proc show it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from gpuconf.basics.processes import stat_of
from gpuconf.basics.units import MIB
from gpuconf.machine.cards.inventory import RAY, SLURM, Gpu, GpuProcess
from gpuconf.machine.schedulers.tasks import held_outside, is_task_of


def held_mib(*pids: int, own: int = 0) -> int | None:
    """What is held outside Ray, in MiB, where each of these processes holds 100."""
    processes = tuple(GpuProcess(pid, 100 * MIB) for pid in pids)
    gpu = Gpu(0, total_bytes=1000 * MIB, free_bytes=500 * MIB, processes=processes)
    held = held_outside(gpu, RAY, own)
    return None if held is None else held // MIB


def test_what_the_scheduler_did_not_start_is_outside() -> None:
    """500 MiB are in use; what this process holds itself comes off, another's does not."""
    assert held_mib() == 500
    assert held_mib(os.getppid()) == 500
    assert held_mib(os.getpid(), own=os.getpid()) == 400


def test_what_an_ending_process_holds_is_not() -> None:
    """A zombie has no command line that could name its scheduler; its memory is free soon."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        end = time.monotonic() + 30
        while (stat := stat_of(child.pid)) and stat.state != "Z" and time.monotonic() < end:
            time.sleep(0.01)
        assert held_mib(child.pid) == 400
        assert held_mib(child.pid, os.getppid()) == 400


def test_tasks_are_known_by_their_title() -> None:
    """Ray names its workers, Slurm the parent of a step's tasks; a child of such a process counts.

    A file of that name is no worker.
    """
    child = f"import subprocess, sys; subprocess.run([{sys.executable!r}, '-c', 'input()'])"
    for title, is_rays, is_slurms in (
        ("ray::Model.train", True, False),
        ("slurmstepd: [12.0]", False, True),
        ("./ray::Model.train", False, False),
    ):
        with subprocess.Popen(
            [title, "-c", child], executable=sys.executable, stdin=subprocess.PIPE
        ) as parent:
            end = time.monotonic() + 30
            listing = f"/proc/{parent.pid}/task/{parent.pid}/children"
            while not (pids := Path(listing).read_text().split()) and time.monotonic() < end:
                time.sleep(0.01)
            (pid,) = map(int, pids)
            assert (is_task_of(pid, RAY), is_task_of(pid, SLURM)) == (is_rays, is_slurms), title
            parent.communicate(b"\n")


def test_unknown_is_none() -> None:
    """Without figures of NVML's nothing is known."""
    assert held_outside(Gpu(0), RAY, 0) is None
