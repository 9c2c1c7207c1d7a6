"""All processes that came of a command, wherever they have gone, and their end.

A process group is not enough: ``timeout`` makes one of its own, ``setsid`` a session.  So this
process becomes the subreaper of what it starts: a process whose parent has ended becomes a child
of ours, not of the system's first one, and the tree below us holds them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.01
_LONGEST_END_S = 20.0  # a process in the middle of a disk's or driver's work ends after it


class Family:
    """What a command is about to start.  ``mark``, as NAME=VALUE, is in its environment.

    Made before the command: children that are there by then are somebody else's.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._others = set(_children_of(os.getpid(), _parents()))
        _become_subreaper()

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill the command and all that came of it, until none is left."""
        deadline = time.monotonic() + _LONGEST_END_S
        while True:
            # Once more after the last: one may have been started while we looked.
            living = self._living()
            for pid in living:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            child.poll()
            # A process whose first thread has ended is a zombie, and not over: other threads of
            # it may still be giving back memory.
            ending = self._reap(child)
            if not (living or ending) or time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)

    def _living(self) -> set[int]:
        parents = _parents()
        found = set(self._ours(parents))
        new = found
        while new:
            new = {pid for pid, parent in parents.items() if parent in new} - found
            found |= new
        # Where there is no subreaper: those that still bear the mark.
        return found | {pid for pid in parents if pid not in found and self._is_marked(pid)}

    def _ours(self, parents: dict[int, int]) -> list[int]:
        return [pid for pid in _children_of(os.getpid(), parents) if pid not in self._others]

    def _is_marked(self, pid: int) -> bool:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # another user's, or gone
            return False
        return pid != os.getpid() and self._mark in environ.split(b"\0")

    def _reap(self, child: subprocess.Popen[bytes]) -> bool:
        """Take note of the ends of those that became our children; whether some are to come."""
        for pid in self._ours(_parents(with_ended=True)):
            if pid != child.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return child.returncode is None or bool(self._ours(_parents(with_ended=True)))


def _parents(*, with_ended: bool = False) -> dict[int, int]:
    """The parent of each process; of ended ones (zombies) only if asked."""
    return {
        pid: parent for pid, state, parent in _processes() if with_ended or state not in ("Z", "X")
    }


def _processes() -> Iterator[tuple[int, str, int]]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
                # The name in brackets may hold anything, brackets and spaces too.
                state, parent = text.rpartition(")")[2].split()[:2]
                yield int(name), state, int(parent)


def _children_of(pid: int, parents: dict[int, int]) -> list[int]:
    return [child for child, parent in parents.items() if parent == pid]


def _become_subreaper() -> None:
    """Stay one: what comes of it is only that orphans are ours, and `end` looks after them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
