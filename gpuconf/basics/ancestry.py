"""A process's parent and further ancestors, which /proc shows to every user."""

from __future__ import annotations

import os
from collections.abc import Iterator

_MOST_GENERATIONS = 32


def stat_of(pid: int | str) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third, the state, on; None if there are none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the name in brackets, which may itself contain brackets and
            # spaces.
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except (OSError, ValueError):
        return None


def exists(pid: int) -> bool:
    """Whether a process of this pid namespace has that number, even if /proc hides it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True


def parent_of(pid: int) -> int | None:
    """Return the process that started or adopted ``pid``; None if unknown."""
    fields = stat_of(pid)
    return None if fields is None or int(fields[1]) == 0 else int(fields[1])


def lineage_of(pid: int) -> Iterator[int]:
    """Yield ``pid``, its parent, and so on; at most 32 processes."""
    current: int | None = pid
    for _ in range(_MOST_GENERATIONS):
        if current is None:
            return
        yield current
        current = parent_of(current)


def words_of(pid: int) -> list[str]:
    """Return the command line; empty if it cannot be read, and for kernel threads."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
