"""Divert a rehearsed program's files to a shadow folder, and keep it from starting programs.

From its first training run on, the program's results are not real, because its loops are shortened.
So the files that it saves must neither replace nor create a user's file. Python's own file
functions are wrapped when the agent starts, before other modules import them, and work as usual
until `divert`. An audit hook sees operations that bypass them, and then ends the rehearsal.
"""

from __future__ import annotations

import builtins
import io
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.commands.rehearse.agent.shadow import Shadow
from gpuconf.support.keras_api import written_files

_UNFINISHED = re.compile(r"\.tmp[0-9a-f]{32}$")  # TensorFlow's temporary files, renamed later
_OPEN, _MKDIR = os.open, os.mkdir
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READERS = (
    *("stat", "lstat", "access", "chdir", "readlink", "statvfs", "listxattr", "getxattr"),
    *("utime", "chmod", "chown", "setxattr"),
)
_CHANGERS = ("utime", "chmod", "chown", "setxattr")
_REMOVERS = ("remove", "unlink", "rmdir")
# Audit events for changes to files, and the arguments that are changed paths.
_CHANGES = {
    **dict.fromkeys(("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "sqlite3.connect"), (0,)),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
}
_STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"}
# Programs that libraries run to query the machine.
_HARMLESS = {
    *("uname", "ldconfig", "ld", "gcc", "cc", "lscpu", "nvidia-smi", "fc-list", "which", "file"),
}
_SHELL = re.compile(r"[|;&<>`$(\n]")  # lets a shell write a file or start another program
WHY_NO_PROGRAM = "its input would not come from a real training run"


class Files:
    """``when_stuck(what, why)`` ends the rehearsal and does not return."""

    def __init__(self, record: AgentRecord, *, when_stuck: Callable[[str, str], Any]) -> None:
        self._record = record
        self._when_stuck = when_stuck
        self._sign = os.path.join(record.root, "diverting")  # for processes started later
        self._known: set[str] = set()
        self.shadow = Shadow(record.root, self._note)
        self.is_on = os.path.exists(self._sign)
        self._busy = threading.local()

    def watch(self) -> None:
        """Wrap Python's file functions, which work as usual until `divert`."""
        vars(builtins)["open"] = io.open = _Wrapped(self, io.open, self._open)
        for name in (*_READERS, *_REMOVERS):
            self._wrap(name, self._read if name in _READERS else self.shadow_removal)
        self._wrap("open", self._open_low)
        self._wrap("mkdir", self._mkdir)
        for name in ("rename", "replace"):
            self._wrap(name, lambda _, source, target, **__: self.shadow.move(source, target))
        self._wrap("symlink", self._symlink)
        self._wrap("listdir", self._listdir)
        self._wrap("scandir", self._scandir)
        shutil.rmtree = _Wrapped(self, shutil.rmtree, self.shadow_removal)  # type: ignore[assignment]
        sys.addaudithook(self._audit)

    def watch_frameworks(self) -> None:
        """Do the same for files that frameworks open in C++."""
        written_files.divert(self)

    def divert(self) -> None:
        """From now on, write to the shadow instead of the user's files."""
        if not self.is_on:
            self.is_on = True
            with self.busy(), suppress(OSError), open(self._sign, "w", encoding="utf-8"):
                pass
            self.watch_frameworks()

    def busy(self) -> _Busy:
        """Within the context, file functions work as usual."""
        return _Busy(self._busy)

    @property
    def is_diverting(self) -> bool:
        """Whether the current call comes from the program and must be diverted."""
        return self.is_on and not getattr(self._busy, "value", False)

    def _wrap(self, name: str, around: Callable[..., Any]) -> None:
        original = getattr(os, name, None)
        if original is None:  # missing on another system
            return
        wrapped = _Wrapped(self, original, around)
        setattr(os, name, wrapped)
        for supports in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
            if original in supports:
                supports.add(wrapped)

    def _note(self, path: str) -> None:
        if path not in self._known and not _UNFINISHED.search(path):
            self._known.add(path)
            self._record.append("diverted", path)

    def _open(self, original: Any, path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if set(mode) & set("wxa+"):
            keep = "a" in mode or ("+" in mode and "w" not in mode)
            path = self.shadow.for_writing(path, keep=keep, exclusive="x" in mode)
        else:
            path = self.shadow.for_reading(path)
        return original(path, mode, *rest, **named)

    def _open_low(self, original: Any, path: Any, flags: int, *rest: Any, **named: Any) -> Any:
        if flags & _WRITES:
            keep, exclusive = not flags & os.O_TRUNC, bool(flags & os.O_EXCL)
            path = self.shadow.for_writing(path, keep=keep, exclusive=exclusive)
        else:
            path = self.shadow.for_reading(path)
        return original(path, flags, *rest, **named)

    def _read(self, original: Any, path: Any, *rest: Any, **named: Any) -> Any:
        name = original.__name__
        if name in _CHANGERS:
            path = self.shadow.for_writing(path, keep=True)
        return original(self.shadow.for_reading(path), *rest, **named)

    def shadow_removal(self, original: Any, path: Any, *rest: Any, **named: Any) -> Any:
        """Remove the file that the path refers to."""
        return self.shadow.remove(path, original, *rest, **named)

    def _mkdir(self, original: Any, path: Any, *rest: Any, **named: Any) -> Any:
        return original(self.shadow.for_a_folder(path), *rest, **named)

    def _symlink(self, original: Any, source: Any, target: Any, **named: Any) -> Any:
        """Refuse symbolic links: in the shadow, they would lead to user files."""
        real = os.path.abspath(os.fsdecode(target))
        if not self.shadow.has_none(real):
            self.refuse(real)
        return original(source, target, **named)

    def _listdir(self, original: Any, path: Any = ".") -> Any:
        return list(self.shadow.listed(path or ".", original).values())

    def _scandir(self, original: Any, path: Any = ".") -> Any:
        return _Scan(
            list(self.shadow.listed(path or ".", lambda each: list(original(each))).values())
        )

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuse file changes that bypass the wrapped functions, and attempts to start programs."""
        if not self.is_diverting:
            return
        if event == "open":
            if isinstance(args[2], int) and args[2] & _WRITES:
                self._refuse_change(args[0])
        elif event in _CHANGES:
            for index in _CHANGES[event]:
                self._refuse_change(args[index])
        elif event in _STARTS:
            self._refuse_start(event, args)

    def _refuse_change(self, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike) or path == ":memory:":
            return
        with self.busy():
            real = os.path.abspath(os.fsdecode(path))
            is_left = self.shadow.has_none(real) or os.path.isdir(real)  # tempfile opens these
        if not is_left:
            self.refuse(real)

    def refuse(self, path: str) -> None:
        """End the rehearsal, because a write that cannot be diverted would follow."""
        self._when_stuck(f"writing {path}", "it would change a file outside the rehearsal")

    def _refuse_start(self, event: str, args: tuple[Any, ...]) -> None:
        given = args[1] if event == "subprocess.Popen" else args[0]
        words = given if isinstance(given, list | tuple) else str(os.fsdecode(given)).split()
        command = " ".join(os.fsdecode(word) for word in words)
        does_more = event == "os.system" and _SHELL.search(os.fsdecode(given))
        if words and (does_more or os.path.basename(os.fsdecode(words[0])) not in _HARMLESS):
            self._when_stuck(f"starting `{command[:200]}`", WHY_NO_PROGRAM)


class _Wrapped:
    """A diverted Python function; like a builtin, it does not bind as a method."""

    def __init__(self, files: Files, original: Any, around: Callable[..., Any]) -> None:
        self._files = files
        self._original = original
        self._around = around
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__text_signature__"):
            setattr(self, name, getattr(original, name, None))
        vars(self).update(getattr(original, "__dict__", {}))

    def __call__(self, *args: Any, **named: Any) -> Any:
        files = self._files
        caller = sys._getframe().f_back  # None if Python itself prints an uncaught error
        if caller is not None and caller.f_globals.get("__name__") == "tempfile":
            if self._original is _MKDIR or (self._original is _OPEN and args[1] & os.O_CREAT):
                files.shadow.leave_alone(os.fsdecode(args[0]))
            return self._original(*args, **named)
        if not files.is_diverting:
            return self._original(*args, **named)
        for name in [name for name in ("path", "file", "src", "dst") if name in named]:
            args = (*args, named.pop(name))
        if not _is_path(args, named):
            return self._original(*args, **named)
        with files.busy():
            return self._around(self._original, *args, **named)


class _Busy:
    def __init__(self, state: threading.local) -> None:
        self._state = state

    def __enter__(self) -> None:
        self._before = getattr(self._state, "value", False)
        self._state.value = True

    def __exit__(self, *_: object) -> None:
        self._state.value = self._before


class _Scan:
    """The result of ``os.scandir``: an iterator that can be closed."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> _Scan:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Return no more entries."""
        self._entries = iter(())


def _is_path(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether the call uses a path, not an open file or folder."""
    if any(named.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
        return False
    return not args or (isinstance(args[0], str | bytes | os.PathLike) and bool(args[0]))
