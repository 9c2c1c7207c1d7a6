"""Who the processes on the cards are: owner, start, state, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable

from gpuconf.doctor.facts import ProcessFacts
from gpuconf.doctor.probes.files import read_text, under
from gpuconf.hardware import GpuProcess, Inventory
from gpuconf.terminal import printable


def read_processes(
    inventory: Inventory, *, root: str, in_container: bool = False
) -> dict[int, ProcessFacts]:
    """What /proc tells of each process that NVML lists.

    In a container NVML's numbers may be the host's, and the same number here a stranger: there
    a process whose names do not fit is left out.  Elsewhere it has renamed itself, as Ray's do.
    """
    boot = _boot_time(root)
    found = {}
    for process in _listed(inventory):
        facts = _read(process, root=root, boot=boot, is_doubtful=in_container)
        if facts is not None:
            found[process.pid] = facts
    return found


def _listed(inventory: Inventory) -> Iterable[GpuProcess]:
    for gpu in inventory.gpus:
        for device in (gpu, *gpu.mig_instances):
            yield from device.processes or ()


def _read(
    process: GpuProcess, *, root: str, boot: float | None, is_doubtful: bool
) -> ProcessFacts | None:
    folder = under(root, f"/proc/{process.pid}")
    text = read_text(os.path.join(folder, "stat"))
    # pid (name) state parent …; a name may hold spaces and brackets itself.
    match = re.match(r"\d+ \((.*)\) (\S) (\d+) (.*)", text or "", re.DOTALL)
    if match is None:
        return None
    name, state, parent, rest = match.groups()
    if is_doubtful and process.name and not _same(process.name, name, folder):
        return None
    fields = rest.split()
    uid = _owner(folder)
    return ProcessFacts(
        process.pid,
        name=printable(name),  # a process names itself, ESC sequences and all
        user=None if uid is None else _user(uid),
        is_ours=None if uid is None else uid == os.getuid(),
        # proc(5): field 22 of stat is the start in clock ticks since the machine's own.
        started=None if boot is None else boot + int(fields[17]) / os.sysconf("SC_CLK_TCK"),
        state=state,
        parent=int(parent),
    )


def _same(told: str, name: str, folder: str) -> bool:
    """Whether NVML's name, a path or the first words of a command, is this process's."""
    words = (read_text(os.path.join(folder, "cmdline")) or "").split("\0")
    known = {name, os.path.basename(words[0])}
    with contextlib.suppress(OSError):  # another user's
        known.add(os.path.basename(os.readlink(os.path.join(folder, "exe"))))
    base = os.path.basename(told.partition(" ")[0])  # escaped where NVML was asked
    shown = [printable(each) for each in known if each]
    return any(base.startswith(each) or each.startswith(base) for each in shown)


def _boot_time(root: str) -> float | None:
    match = re.search(r"^btime (\d+)", read_text(under(root, "/proc/stat")) or "", re.MULTILINE)
    return float(match[1]) if match else None


def _owner(folder: str) -> int | None:
    try:
        return os.stat(folder).st_uid
    except OSError:
        return None


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
