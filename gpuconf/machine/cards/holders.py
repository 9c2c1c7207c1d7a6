"""Who holds a GPU's memory: the driver's process list, and what /proc knows about each process."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuconf.basics.processes import (
    Stat,
    initial_environment_of,
    proc_text,
    program_of,
    stat_of,
    user_name,
    user_of,
    words_of,
)
from gpuconf.basics.state_note import read_note
from gpuconf.basics.terminal import printable
from gpuconf.machine.cards.inventory import Gpu, GpuProcess, Inventory


class Process(NamedTuple):
    """A process as /proc shows it.  Unknown is None.

    ``user`` is the owner's name, and ``is_ours`` whether that is the current user.  ``started`` is
    in seconds since 1970.  ``state`` is the kernel's letter: R, S, D, T stopped, t traced, Z dead.
    ``profile`` is the gpuconf profile in its initial environment, set by its user or by gpuconf in
    a parent process; also None if it may not be read. ``program`` is the script that Python runs,
    or else the command's name.
    """

    pid: int
    name: str | None = None
    user: str | None = None
    is_ours: bool | None = None
    started: float | None = None
    state: str | None = None
    parent: int | None = None
    profile: str | None = None
    program: str | None = None


def holders_of(
    gpu: Gpu, processes: Mapping[int, Process]
) -> tuple[tuple[GpuProcess, Process], ...] | None:
    """Return who is using memory on ``gpu``, largest first, as the driver and /proc show it.

    None if the driver does not say.  A process that /proc does not show, for example one outside
    this container, has a Process without further figures.
    """
    if gpu.processes is None:
        return None
    found = []
    for listed in gpu.processes:
        known = processes.get(listed.pid, Process(listed.pid))
        found.append((listed._replace(name=listed.name or known.name), known))
    return tuple(sorted(found, key=lambda pair: -(pair[0].used_bytes or 0)))


def read_processes(
    inventory: Inventory, *, root: str = "/", in_container: bool = False
) -> dict[int, Process]:
    """Return what /proc under ``root`` shows about each process that NVML lists, by its number.

    In a container, NVML's process numbers may be the host's, and the same number here may belong to
    another process, so a process whose names do not match is omitted there. Elsewhere, a mismatch
    means that the process has renamed itself, as Ray's processes do.
    """
    proc = os.path.join(root, "proc")
    boot = _boot_time(proc)
    found = {}
    for listed in _listed(inventory):
        process = _read(listed, proc, boot=boot, is_doubtful=in_container)
        if process is not None:
            found[listed.pid] = process
    return found


def _listed(inventory: Inventory) -> Iterable[GpuProcess]:
    for gpu in inventory.gpus:
        for device in (gpu, *gpu.mig_instances):
            yield from device.processes or ()


def _read(
    listed: GpuProcess, proc: str, *, boot: float | None, is_doubtful: bool
) -> Process | None:
    pid = listed.pid
    if sys.platform == "win32":  # where no /proc describes it
        return None
    stat, uid = stat_of(pid, proc), user_of(pid, proc)
    if stat is None or (is_doubtful and listed.name and not _same(listed.name, pid, stat, proc)):
        return None
    return Process(
        pid,
        name=printable(stat.name),  # a process chooses its name, possibly with ESC sequences
        user=None if uid is None else user_name(uid),
        is_ours=None if uid is None else uid == os.getuid(),
        started=None if boot is None else boot + stat.started / os.sysconf("SC_CLK_TCK"),
        state=stat.state,
        parent=stat.parent,
        profile=_profile(pid, proc),
        program=program_of(words_of(pid, proc)) or None,
    )


def _same(listed: str, pid: int, stat: Stat, proc: str) -> bool:
    """Whether NVML's name, a path or the first words of a command, matches this process."""
    known = {stat.name, os.path.basename(words_of(pid, proc)[0])}
    with contextlib.suppress(OSError):  # another user's process
        known.add(os.path.basename(os.readlink(os.path.join(proc, str(pid), "exe"))))
    base = os.path.basename(listed.partition(" ")[0])  # NVML's names are already escaped
    shown = [printable(each) for each in known if each]
    return any(base.startswith(each) or each.startswith(base) for each in shown)


def _profile(pid: int, proc: str) -> str | None:
    environ = initial_environment_of(pid, proc)
    note = read_note(environ)
    profile = environ.get("GPUCONF_PROFILE") or (note.profile if note is not None else "")
    return printable(profile) or None


def _boot_time(proc: str) -> float | None:
    match = re.search(r"^btime (\d+)", proc_text("", "stat", proc), re.MULTILINE)
    return float(match[1]) if match else None
