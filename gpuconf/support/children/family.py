"""A command and all its descendants, wherever they have moved, and how to end them.

A process group is not enough: ``timeout`` creates its own, and ``setsid`` a session.  So the
processes have a mark in their environment. One of our commands also becomes the subreaper of the
processes that it starts: a process whose parent has ended becomes its child instead of init's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from gpuconf.basics.processes import Stat, initial_environment_of, stat_of
from gpuconf.support.children.signals import PARENT_VARIABLE, held_back, sigterm_as_exit

MARK_VARIABLE = "GPUCONF_FAMILY"  # the families of a process, outermost first: "a:b"
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_POLL_S = 0.01
# A process in the middle of disk or driver work ends only after it.
_PATIENCE_S = 20.0


class MarkedFamily:
    """The processes of one command, as a context manager that ends all of them on exit.

    Timeouts, errors, Ctrl-C, SIGTERM and SIGHUP all trigger that exit. It uses only SIGKILL, which
    works on a stopped process and cannot be ignored. It kills the command, its descendants, and the
    processes with the mark, and leaves alone the other children of this process, which belongs to
    the user. Afterwards ``is_gone`` is False if a process did not end within ``patience_s``
    seconds.
    """

    _living: ClassVar[set[str]] = set()  # the families of this process that have not ended

    def __init__(self, *, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._mark = uuid.uuid4().hex
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._context = contextlib.ExitStack()
        self.is_gone = True

    def __enter__(self) -> MarkedFamily:
        self._context.enter_context(sigterm_as_exit())
        self._context.callback(MarkedFamily._living.discard, self._mark)
        MarkedFamily._living.add(self._mark)
        return self

    def __exit__(self, *_: object) -> None:
        with self._context, held_back():
            self.end()

    def start(
        self, command: Sequence[str], environ: Mapping[str, str], **streams: Any
    ) -> subprocess.Popen[bytes]:
        """Start the command in its own session; ``streams`` are Popen options.

        Raises OSError if it cannot be started.
        """
        marks = [*_marks_in(environ.get(MARK_VARIABLE, "")), self._mark]
        marked = {**environ, MARK_VARIABLE: ":".join(marks), PARENT_VARIABLE: str(os.getpid())}
        child = subprocess.Popen(list(command), env=marked, start_new_session=True, **streams)
        self._started[child.pid] = child
        return child

    def end(self) -> None:
        """Kill every process in the family, and wait until none is left."""
        deadline = time.monotonic() + self._patience_s
        # Search once more after the last one: another may have started during the search.
        while members := self._members():
            for pid in members:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                if pid in self._started:
                    self._started[pid].poll()
                else:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        self.is_gone = not members

    def _members(self) -> set[int]:
        """Return the family's processes, including zombies.

        A process whose first thread has ended also looks like a zombie, while other threads still
        free memory.
        """
        processes = _processes()
        if not processes:  # the children themselves are all that is known
            return {pid for pid, child in self._started.items() if child.poll() is None}
        new = found = self._own(processes)
        while new:
            new = {pid for pid, stat in processes.items() if stat.parent in new} - found
            found |= new
        return found

    def _own(self, processes: Mapping[int, Stat]) -> set[int]:
        """Return the commands that the family has started, and all processes with its mark."""
        alive = {pid for pid, child in self._started.items() if child.returncode is None}
        marked = {pid for pid in processes if self._mark in _marks_of(pid)}
        # One that has just ended shows no marks.
        return (marked - {os.getpid()}) | (alive & set(processes))


class AdoptingFamily(MarkedFamily):
    """A MarkedFamily in a command's own process, which also adopts orphans, with or without a mark.

    So it kills this process's children in sessions that did not exist before, and everything below
    them. Children that other code has started in this process are left alone, even if they are
    orphaned.
    """

    def __enter__(self) -> AdoptingFamily:
        self._old_sessions = {stat.session for stat in _processes().values()}
        super().__enter__()
        self._context.enter_context(adopting_orphans())
        return self

    def _own(self, processes: Mapping[int, Stat]) -> set[int]:
        adopted = {
            pid
            for pid, stat in processes.items()
            if stat.parent == os.getpid() and stat.session not in self._old_sessions
            if not MarkedFamily._living & _marks_of(pid)
        }
        return super()._own(processes) | adopted


def _processes() -> dict[int, Stat]:
    """Every process that /proc shows."""
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):  # macOS has no /proc
        names = os.listdir("/proc")
    found = {int(name): stat_of(name) for name in names if name.isdecimal()}
    return {pid: stat for pid, stat in found.items() if stat is not None}


def _marks_of(pid: int) -> set[str]:
    """Return the marks in a process's environment; empty if it ended or belongs to another user."""
    return set(_marks_in(initial_environment_of(pid).get(MARK_VARIABLE, "")))


def _marks_in(value: str) -> list[str]:
    return [mark for mark in value.split(":") if mark]


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make orphans below this process its children; if that is impossible, the mark finds them.

    So the family of this process still finds those that have emptied their environment.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        yield
        return
    before = ctypes.c_int()
    prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
