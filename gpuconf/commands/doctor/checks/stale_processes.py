"""Memory held for no purpose: by a process that is not running, or by no process at all.

Advice that ends in ``kill`` must be certain. Days of run time or a closed shell prove nothing:
every training run under nohup looks like that. Only a stopped or dead process is certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuconf.basics.units import GIB, sized
from gpuconf.commands.doctor.checks.check import NO_GPU, Check, ok, skip, warn
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.machine.cards import Gpu
from gpuconf.machine.cards.holders import Process, holders_of

_STATES = {"T": "is stopped", "Z": "is dead", "X": "is dead"}
# Smaller amounts belong to the driver and the display, and no process is listed for them.
_UNEXPLAINED_BYTES = 3 * GIB // 2


class _Idle(NamedTuple):
    gpu: Gpu
    process: Process
    used_bytes: int | None


def _leftover(facts: Facts) -> Finding:
    if not facts.has_gpu:
        return skip(NO_GPU)
    idle = list(_idle(facts))
    if idle:
        pids = list(dict.fromkeys(each.process.pid for each in idle))
        return warn(
            "; ".join(dict.fromkeys(map(_sentence, idle))),
            "its memory comes back when it ends, or `fg` and `kill -CONT` let it continue",
            fix=_how_to_end(idle, pids),
        )
    strays = [(gpu, stray) for gpu in facts.inventory.gpus if (stray := _unexplained(facts, gpu))]
    if strays:
        listed = "; ".join(f"GPU {gpu.index}: {sized(stray)}" for gpu, stray in strays)
        return warn(
            f"memory in use by no process on the driver's list: {listed}",
            "a process that is exiting, one in another container, or one whose main thread exited",
            "fuser is in the package psmisc",
            fix="sudo fuser -v /dev/nvidia*   # then: kill PID",
        )
    known = any(gpu.processes is not None for gpu in facts.inventory.gpus)
    if not known:
        return skip("the driver does not report who uses memory")
    return ok("every process that uses memory is running")


def _idle(facts: Facts) -> Iterator[_Idle]:
    for gpu in facts.inventory.gpus:
        for device in (gpu, *gpu.mig_instances):
            for listed, process in holders_of(device, facts.processes) or ():
                if process.state in _STATES:
                    yield _Idle(gpu, process, listed.used_bytes)


def _sentence(idle: _Idle) -> str:
    process = idle.process
    held = sized(idle.used_bytes) if idle.used_bytes is not None else "memory"
    user = f" of {process.user}" if process.user else ""
    state = _STATES[process.state or ""]
    named = f"pid {process.pid} {process.name}{user}"
    return f"{named} {state}, but still uses {held} on GPU {idle.gpu.index}"


def _how_to_end(idle: list[_Idle], pids: list[int]) -> str:
    listed = ",".join(map(str, pids))
    dead = [each.process for each in idle if each.process.state in ("Z", "X")]
    if dead:  # a zombie cannot be killed; its parent must reap it or end
        parents = ",".join(dict.fromkeys(str(each.parent) for each in dead if each.parent))
        of_parents = f"; ps -fp {parents}" if parents else ""
        return f"ps -fp {listed}{of_parents}   # then end the parent: kill PPID"
    sudo = "" if all(each.process.is_ours for each in idle) else "sudo "
    return f"ps -fp {listed}   # then: {sudo}kill -9 {' '.join(map(str, pids))}"


def _unexplained(facts: Facts, gpu: Gpu) -> int | None:
    """Bytes in use that no process accounts for; None if unknown or small.

    In a container and under WSL, processes from outside are not listed.
    """
    if facts.system.container or facts.system.is_wsl or gpu.mig_enabled:
        return None
    sizes = [process.used_bytes for process in gpu.processes or ()]
    if gpu.used_bytes is None or gpu.processes is None or None in sizes:
        return None
    stray = gpu.used_bytes - sum(size for size in sizes if size is not None)
    return stray if stray >= _UNEXPLAINED_BYTES else None


CHECKS = (Check("cards.leftover", "only running processes use memory", _leftover),)
