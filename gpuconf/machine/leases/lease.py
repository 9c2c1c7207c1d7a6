"""A lease as a value, and as the name of its file, which holds all the figures.

    lease.<ticket>.<pid namespace>.<pid>.<start>.<bytes>
    waits.<ticket>.<pid namespace>.<pid>.<start>.<bytes>

A process must never open its own lease again: closing a second descriptor of a file drops the POSIX
lock that shows that the process is alive.  So the file's content is only for people and for other
processes.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import NamedTuple

from gpuconf.basics.processes import proc_text, stat_of

GRANTED, WAITING = "lease", "waits"
UNFINISHED = ".new."
_LONGEST_NUMBER = 19  # digits of a 64-bit number


class Owner(NamedTuple):
    """A process; no other process since the machine booted has had the same three numbers.

    ``namespace`` is the inode of its pid namespace, and ``start`` its start time in clock ticks
    since boot (proc(5), field 22 of stat).  Both are 0 if /proc does not report them.
    """

    namespace: int
    pid: int
    start: int


class Lease(NamedTuple):
    """A number of bytes on a GPU that a process has leased or waits for.

    ``folder`` and ``name`` locate its file. Of two waiting processes, the one with the lower
    ``ticket`` came first.
    """

    folder: str
    name: str
    is_waiting: bool
    ticket: int
    owner: Owner
    size_bytes: int

    @property
    def path(self) -> str:
        """The path of the lease file."""
        return f"{self.folder}/{self.name}"


def parse(folder: str, name: str) -> Lease | None:
    """Parse a lease from its file name; return None for other files.

    Extra fields, which a later version may add, are ignored.
    """
    state, *fields = name.split(".")
    numbers = fields[:5]
    if state not in (GRANTED, WAITING) or len(numbers) < 5 or not all(map(_is_number, numbers)):
        return None
    ticket, namespace, pid, start, size_bytes = map(int, numbers)
    owner = Owner(namespace, pid, start)
    return Lease(folder, name, state == WAITING, ticket, owner, size_bytes)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


def file_name(state: str, ticket: int, owner: Owner, size_bytes: int) -> str:
    """Return the name that :func:`parse` reads."""
    return ".".join(map(str, (state, ticket, *owner, size_bytes)))


def folder_of(uuid: str) -> str:
    """Return the name of a GPU's folder; MIG UUIDs contain slashes with drivers before R470."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", uuid)


def next_ticket() -> int:
    """Return a number higher than all others drawn on this machine since it booted.

    It is in nanoseconds, from a clock that cannot be set. Drawn under the mutex, the numbers are in
    order of arrival.
    """
    if sys.platform == "linux":
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


def this_process() -> Owner:
    """Describe this process as an owner."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    stat = stat_of("self")
    return Owner(namespace, os.getpid(), 0 if stat is None else stat.started)


def innermost_pid(pid: int) -> int | None:
    """Return a process's pid in its own pid namespace, if that namespace is below this one.

    NSpid in proc_pid_status(5) lists its pids from the reader's namespace inwards.
    """
    status = proc_text(pid, "status")
    found = re.search(r"^NSpid:\t\d+\t(?:\d+\t)*(\d+)$", status, re.MULTILINE)
    return int(found[1]) if found else None
