"""Processes, as /proc shows them to every user, and whether this one is a pool worker."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuconf.basics.terminal import printable

_PROC = "/proc"
_MOST_GENERATIONS = 64
_WITH_A_VALUE = ("-W", "-X")  # Python options that take a value


class Stat(NamedTuple):
    """Some fields of /proc/PID/stat, see proc(5).

    ``state`` is the kernel's letter: R, S, D, T (stopped), t (traced) or Z (dead). ``started`` is
    in clock ticks since boot, ``address_space`` in bytes.
    """

    name: str
    state: str
    parent: int
    session: int
    started: int
    address_space: int


def stat_of(pid: int | str, proc: str = _PROC) -> Stat | None:
    """Return what ``stat`` says about a process; None if there is no such process."""
    # The name in brackets may itself contain brackets and spaces.
    before, _, after = proc_text(pid, "stat", proc).rpartition(")")
    if not after:
        return None
    fields = after.split()
    name = before.partition("(")[2]
    return Stat(name, fields[0], int(fields[1]), int(fields[3]), int(fields[19]), int(fields[20]))


def proc_text(pid: int | str, name: str, proc: str = _PROC) -> str:
    """Return the contents of a process's file ``name``; empty if this user cannot read it."""
    return text_in(os.path.join(proc, str(pid), name))


def text_in(path: str) -> str:
    """Return the text of a file; empty if it cannot be read or does not exist."""
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def words_of(pid: int, proc: str = _PROC) -> list[str]:
    """Return the command line; one empty word if it cannot be read, and for kernel threads."""
    return proc_text(pid, "cmdline", proc).rstrip("\0").split("\0")


def initial_environment_of(pid: int | str, proc: str = _PROC) -> dict[str, str]:
    """Return the variables that a process was started with; empty if this user cannot read them."""
    pairs = (each.partition("=") for each in proc_text(pid, "environ", proc).split("\0"))
    return {name: value for name, _, value in pairs if name}


def exists(pid: int) -> bool:
    """Whether a process in this PID namespace has that number, even if /proc hides it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True


def is_ending(pid: int) -> bool:
    """Whether a process is exiting or a zombie: it has released its address space."""
    stat = stat_of(pid)
    return stat is not None and stat.address_space == 0


def process_and_ancestors(pid: int) -> Iterator[int]:
    """Yield ``pid``, its parent, and so on; at most 64 processes."""
    for _ in range(_MOST_GENERATIONS):
        yield pid
        stat = stat_of(pid)
        if stat is None or stat.parent == 0:
            return
        pid = stat.parent


def user_of(pid: int, proc: str = _PROC) -> int | None:
    """Return the ID of the user that owns a process; None if there is no such process."""
    try:
        return os.stat(os.path.join(proc, str(pid))).st_uid
    except OSError:
        return None


def own_user() -> int:
    """Return this process's user; on Windows 0, which os.stat reports for every file there."""
    if sys.platform == "win32":
        return 0
    return os.getuid()


def user_name(uid: int) -> str:
    """Return the name of the user with this ID, or the ID itself if it has no name."""
    if sys.platform == "win32":
        return str(uid)
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


ISOLATED_PROGRAM = "gpuconf.isolation.child"


def program_of(words: Sequence[str]) -> str:
    """Return what people call a process with this command line: its script, module or command.

    A process of `gpuconf.isolated` has its caller's name, its last word.
    """
    if ISOLATED_PROGRAM in words:
        return words[-1]
    name = os.path.basename(words[0])
    if re.fullmatch(r"(python|pypy)[0-9.]*", name):
        rest = iter(words[1:])
        for word in rest:
            if word == "-m" or not word.startswith("-"):
                return printable(next(rest, "") if word == "-m" else os.path.basename(word)) or name
            if word == "-c":
                break
            if word in _WITH_A_VALUE:
                next(rest, None)
    return printable(name)


def is_worker() -> bool:
    """Whether multiprocessing or multiprocess started this process; imports neither.

    ``parent_process()`` is set only after a spawned child has imported the main module; during that
    import, multiprocessing sets its own ``_inheriting``.
    """
    for name in ("multiprocessing.process", "multiprocess.process"):
        process = sys.modules.get(name)
        current = getattr(process, "current_process", None)
        if process is None or current is None:  # or it is still being imported
            continue
        if getattr(current(), "_inheriting", False) or process.parent_process() is not None:
            return True
    return False
