"""A lease as a value, and as the name of its file, which holds all that the arithmetic needs.

    lease.<ticket>.<pid namespace>.<pid>.<start>.<bytes>
    waits.<ticket>.<pid namespace>.<pid>.<start>.<bytes>

A process must never open its own lease again: to close a second descriptor of a file drops the
POSIX lock that says that the process lives.  So the content is for people, and for others.
"""

from __future__ import annotations

import os
import re
import time

from gpuconf.hardware.ancestry import stat_of
from gpuconf.records import NamedTuple

GRANTED, WAITING = "lease", "waits"
UNFINISHED = ".new."
_LONGEST_NUMBER = 19  # digits, as many as 64 bits have


class Owner(NamedTuple):
    """A process; no other one since the machine's start has the same three numbers.

    ``namespace`` is the inode of its pid namespace, ``start`` its start in clock ticks since boot
    (proc(5), field 22 of stat).  Both are 0 where /proc does not say.
    """

    namespace: int
    pid: int
    start: int


class Lease(NamedTuple):
    """So many bytes of a card, promised to a process, or waited for by it.

    ``folder`` and ``name`` are those of its file.  Of two that wait, the lower ``ticket`` came
    first.
    """

    folder: str
    name: str
    is_waiting: bool
    ticket: int
    owner: Owner
    size_bytes: int

    @property
    def path(self) -> str:
        """Its file."""
        return f"{self.folder}/{self.name}"


def parse(folder: str, name: str) -> Lease | None:
    """The lease of that file name; None for a file of another kind.

    Further fields, which a later version may add, are passed over.
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
    """The name that :func:`parse` reads."""
    return ".".join(map(str, (state, ticket, *owner, size_bytes)))


def folder_of(uuid: str) -> str:
    """The name of a GPU's folder; drivers before R470 write a MIG instance's UUID with slashes."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", uuid)


def next_ticket() -> int:
    """A number above all that were given on this machine since it started.

    Nanoseconds of a clock that cannot be set; drawn under the mutex, they are in order of arrival.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def this_process() -> Owner:
    """The owner that this process is."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return Owner(namespace, os.getpid(), int((stat_of("self") or ["0"] * 20)[19]))


def innermost_pid(pid: int) -> int | None:
    """The number of a process in its own pid namespace, where that lies below this one.

    NSpid of proc_pid_status(5) lists its numbers from the reader's namespace inwards.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"NSpid:"):
                    numbers = line.split()[1:]
                    return int(numbers[-1]) if len(numbers) > 1 else None
    except (OSError, ValueError):
        pass
    return None
