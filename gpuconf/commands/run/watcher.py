"""A process that watches a run's command, and finally reports who computed without a limit.

The plan cannot reach every program (docs/run.md lists the exceptions).  The watcher regularly asks
NVML which processes compute on the run's GPUs. When the command has ended, the watcher names those
descendants of the command, and those processes started with its plan, that never took a lease. It
ends when the command ends.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, NoReturn

from gpuconf.basics.processes import is_ending, proc_text, process_and_ancestors, stat_of
from gpuconf.basics.terminal import say
from gpuconf.basics.units import sized
from gpuconf.machine.cards import Inventory, read_inventory
from gpuconf.machine.cards.holders import Process, read_processes
from gpuconf.machine.leases.files import users_of
from gpuconf.machine.leases.lease import parse

_FIRST_LOOK_S = 1.0
_LONGEST_PAUSE_S = 10.0
_HINT = (
    "hint: inside the command, python -I, -E or -S, sudo, a container, env -i or another "
    "PYTHONPATH loses the plan: leave them out, or start gpuconf run behind them"
)


class Escaped(NamedTuple):
    """A process of the run that computed without a lease, and its highest observed memory use."""

    pid: int
    gpu: int
    name: str
    used_bytes: int = 0

    def __str__(self) -> str:
        size = f" ({sized(self.used_bytes)})" if self.used_bytes else ""
        return f"pid {self.pid} ({self.name}) computed on GPU {self.gpu}{size} without its limit"


class Watch:
    """The processes that have escaped from the run of the command ``root`` with these leases."""

    def __init__(
        self, root: int, leases: Mapping[str, str], read: Callable[[], Inventory] = read_inventory
    ) -> None:
        self._root = root
        self._leases = leases
        self._read = read
        self.escaped: dict[tuple[int, int], Escaped] = {}

    def look(self) -> None:
        """Query NVML once."""
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
                # A lease user in another pid namespace could be any of these processes.
                if each.pid in users or 0 in users:
                    continue
                # NVML may list a process a moment longer than the kernel does.
                if stat_of(each.pid) is None or is_ending(each.pid):
                    continue
                if self._root not in process_and_ancestors(each.pid) and not _carries(
                    each.pid, path
                ):
                    continue
                process = known.get(each.pid)
                name = (process and (process.program or process.name)) or each.name or "unknown"
                key = each.pid, gpu.index
                most = max(
                    each.used_bytes or 0, self.escaped.get(key, Escaped(0, 0, "")).used_bytes
                )
                self.escaped[key] = Escaped(each.pid, gpu.index, name, most)


def _carries(pid: int, lease_path: str) -> bool:
    """Whether the process was started with the plan: a daemon, whose parents have ended."""
    return json.dumps(lease_path) in proc_text(pid, "environ")


def _users_of(path: str) -> tuple[int, ...]:
    lease = parse(os.path.dirname(path), os.path.basename(path))
    return () if lease is None else users_of(lease)


def start(leases: Mapping[str, str]) -> None:
    """Start a process that watches this one, which is about to exec the command.

    The watcher is detached, so that the command has no unexpected child, and it has no terminal.
    Raises OSError.
    """
    if sys.platform != "linux":
        return  # nothing is leased without an NVIDIA GPU
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
    """Close inherited pipes, which would keep readers waiting, and the command's lease files."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def _watch_until(end: int, watch: Watch) -> None:
    """Check regularly until the command ends, then report who escaped."""
    pause_s = _FIRST_LOOK_S
    while not select.select([end], [], [], pause_s)[0]:
        watch.look()
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    for each in watch.escaped.values():
        say(f"{each}: the plan of gpuconf run never reached it")
    if watch.escaped:
        say(_HINT)
