"""A process that looks on while a run's command computes, and says in the end who had no limit.

The plan cannot reach every program (docs/run.md says which).  The watcher asks NVML now and then
who computes on the cards of the run.  When the command has ended it names those below the command
or started with its plan that never took a place.  It ends with the command.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, NoReturn

from gpuconf.hardware import Inventory, read_inventory
from gpuconf.hardware.ancestry import stat_of
from gpuconf.hardware.holders import Process, read_processes
from gpuconf.leases.files import users_of
from gpuconf.leases.lease import parse
from gpuconf.terminal import say
from gpuconf.units import sized

_FIRST_LOOK_S = 1.0
_LONGEST_PAUSE_S = 10.0
_MOST_GENERATIONS = 64
_HINT = (
    "hint: inside the command, python -I, -E or -S, sudo, a container, env -i or another "
    "PYTHONPATH loses the plan: leave them out, or start gpuconf run behind them"
)


class Escaped(NamedTuple):
    """A process of the run that computed without a place, and the most that it was seen to hold."""

    pid: int
    gpu: int
    name: str
    used_bytes: int = 0

    def __str__(self) -> str:
        size = f" ({sized(self.used_bytes)})" if self.used_bytes else ""
        return f"pid {self.pid} ({self.name}) computed on GPU {self.gpu}{size} without its limit"


class Watch:
    """Who has escaped so far from the run whose command is ``root``, with these leases."""

    def __init__(
        self, root: int, leases: Mapping[str, str], read: Callable[[], Inventory] = read_inventory
    ) -> None:
        self._root = root
        self._leases = leases
        self._read = read
        self.escaped: dict[tuple[int, int], Escaped] = {}

    def look(self) -> None:
        """Ask NVML once."""
        inventory = self._read()
        known: Mapping[int, Process] = {}
        for gpu in (each for card in inventory.gpus for each in (card, *card.mig_instances)):
            path = self._leases.get(gpu.uuid or "")
            listed = [each for each in gpu.processes or () if each.kind == "compute"]
            if path is None or not listed:
                continue
            users = _users_of(path)
            known = known or read_processes(inventory)
            for each in listed:
                # A user in another pid namespace could be any of them.
                if each.pid in users or 0 in users or _is_ending(each.pid):
                    continue
                if not self._is_below(each.pid) and not _carries(each.pid, path):
                    continue
                process = known.get(each.pid)
                name = (process and (process.program or process.name)) or each.name or "unknown"
                key = each.pid, gpu.index
                most = max(
                    each.used_bytes or 0, self.escaped.get(key, Escaped(0, 0, "")).used_bytes
                )
                self.escaped[key] = Escaped(each.pid, gpu.index, name, most)

    def _is_below(self, pid: int) -> bool:
        """Whether the process is the command, or descends from it."""
        for _ in range(_MOST_GENERATIONS):
            if pid == self._root:
                return True
            fields = stat_of(pid)
            if fields is None or pid <= 1:
                return False
            pid = int(fields[1])
        return False


def _carries(pid: int, lease_path: str) -> bool:
    """Whether the process was started with the plan: a daemon, whose parents have ended."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return os.fsencode(lease_path) in file.read()
    except OSError:  # it has gone, or is another user's
        return False


def _is_ending(pid: int) -> bool:
    """Whether the process is on its way out, when NVML may list it after its place has gone.

    Its address space goes first (vsize, field 23 of stat), and the GPU's driver last.
    """
    fields = stat_of(pid)
    return fields is None or fields[20] == "0"


def _users_of(path: str) -> tuple[int, ...]:
    lease = parse(os.path.dirname(path), os.path.basename(path))
    return () if lease is None else users_of(lease)


def start(leases: Mapping[str, str]) -> None:
    """Leave a process behind that watches this one, which is about to become the command.

    It is nobody's child, so that the command has none that it did not start, and in no terminal.
    Raises OSError.
    """
    end = os.pidfd_open(os.getpid())
    watch = Watch(os.getpid(), leases)
    try:
        child = os.fork()
        if not child:
            _leave(end, watch)
        os.waitpid(child, 0)
    finally:
        os.close(end)


def _leave(end: int, watch: Watch) -> NoReturn:
    try:
        os.setsid()
        if not os.fork():
            _let_go_of_all_but(end, sys.stderr.fileno())
            _watch_until(end, watch)
    finally:
        os._exit(0)


def _let_go_of_all_but(*kept: int) -> None:
    """Pipes of whoever started us would stay open, and the leases' files are the command's."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def _watch_until(end: int, watch: Watch) -> None:
    """Look now and then until the command ends, and say who escaped."""
    pause_s = _FIRST_LOOK_S
    while not select.select([end], [], [], pause_s)[0]:
        watch.look()
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    for each in watch.escaped.values():
        say(f"{each}: the plan of gpuconf run never reached it")
    if watch.escaped:
        say(_HINT)
