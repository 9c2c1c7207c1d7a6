"""Who started a process, and what started that, as /proc shows it to every user."""

from __future__ import annotations

from collections.abc import Iterator

_MOST_GENERATIONS = 32


def stat_of(pid: int | str) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on, the state; None where there are none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second is the name in brackets, which may hold brackets and spaces itself.
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except (OSError, ValueError):
        return None


def parent_of(pid: int) -> int | None:
    """The process that started ``pid``, or has taken it over; None where nothing is known of it."""
    fields = stat_of(pid)
    return None if fields is None or int(fields[1]) == 0 else int(fields[1])


def lineage_of(pid: int) -> Iterator[int]:
    """``pid``, its parent, and so on; at most 32 of them."""
    current: int | None = pid
    for _ in range(_MOST_GENERATIONS):
        if current is None:
            return
        yield current
        current = parent_of(current)


def words_of(pid: int) -> list[str]:
    """The command line; empty where it cannot be read, and for threads of the kernel."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
