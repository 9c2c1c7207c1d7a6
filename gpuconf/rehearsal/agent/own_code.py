"""The user's own code: which it is, where in it we are, and its modules with guarded loops.

A folder of the user's gets Python's own `FileFinder` with another loader, by way of
``sys.path_hooks``.  A script (``python train.py``) comes the same way, because Python asks these
hooks whether a script is a package before it runs it.
"""

from __future__ import annotations

import builtins
import os
import sys
import sysconfig
from functools import lru_cache
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from types import CodeType, FrameType
from typing import Any

from gpuconf.rehearsal.agent.loops import guarded_code

CELLS: dict[str, str] = {}  # what code is called that is in no file of the user's: "cell 3"
_SETTLE = "__gpuconf_settle__"
_INSTALLED = {"site-packages", "dist-packages"}
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_targets: set[str] = set()  # folders on sys.path that pip has filled: pip install --target


def watch_imports() -> None:
    """Guard the loops of the script and of the user's modules that are imported from now on."""
    sys.path_hooks.insert(0, _hook)
    for path in [path for path in sys.path_importer_cache if is_own(path)]:
        del sys.path_importer_cache[path]  # what was looked at before us, PYTHONPATH for one


@lru_cache(maxsize=4096)
def is_own(path: str) -> bool:
    """Whether a file or folder is neither Python's, nor installed, nor ours."""
    path = os.path.abspath(path)
    if _INSTALLED.intersection(path.split(os.sep)):
        return False
    return not any(path == root or path.startswith(root + os.sep) for root in _foreign())


def own_frame() -> FrameType | None:
    """The innermost frame of the user's own code; None in a thread that has none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_own_frame(frame):
        frame = frame.f_back
    return frame


def own_place() -> str | None:
    """``train.py:12``: the innermost line of the user's own code."""
    frame = own_frame()
    return None if frame is None else place_of(frame.f_code.co_filename, frame.f_lineno)


def own_stack() -> tuple[tuple[str, int], ...]:
    """Every line of the user's own code that is being run, the innermost first."""
    lines = []
    frame = own_frame()
    while frame is not None:
        if _is_own_frame(frame):
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)


def place_of(file: str, line: int) -> str:
    """A line as the report names it: below this folder by its relative path."""
    name = CELLS.get(file)
    if name is None:
        relative = os.path.relpath(file) if os.path.isabs(file) else file
        name = file if relative.startswith("..") else relative
    return f"{name}:{line}"


def _is_own_frame(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file.startswith("<"):  # python -c, stdin, a cell; and code that libraries make
        return file in CELLS or frame.f_globals.get("__name__") == "__main__"
    return file in CELLS or is_own(file)


@lru_cache(maxsize=1)
def _python() -> frozenset[str]:
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    real = {os.path.realpath(paths[name]) for name in names}
    return frozenset({_OURS, *real, *(os.path.abspath(paths[name]) for name in names)})


def _foreign() -> frozenset[str]:
    return _python() | _targets


def _hook(path: str) -> Any:
    """What Python asks for each folder on ``sys.path``, and for the script."""
    if _is_the_script(path):
        return _ScriptFinder(path)
    folder = path or os.getcwd()
    if not os.path.isdir(folder) or not is_own(folder):
        raise ImportError
    if folder in sys.path and any(name.endswith(".dist-info") for name in os.listdir(folder)):
        _targets.add(os.path.abspath(folder))
        is_own.cache_clear()
        raise ImportError
    return FileFinder(
        folder,
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_OwnLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )


def _is_the_script(path: str) -> bool:
    """Whether Python itself asks, at its start, about the file that it was given to run."""
    try:
        sys._getframe(2)
    except ValueError:  # nobody called the hook: it was the interpreter
        return os.path.isfile(path) and is_own(path) and _is_text(path)
    return False


def _is_text(path: str) -> bool:
    """Whether it is a script, and not a .pyc or an archive, which Python runs too."""
    with open(path, "rb") as file:
        return b"\0" not in file.read()


class _OwnLoader(SourceFileLoader):
    """Python's loader of source files, but for guarded loops, and .pyc files left alone."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source, whatever the cache has."""
        path = self.get_filename(fullname)
        data = self.get_data(path)
        try:
            return guarded_code(data, path)
        except RecursionError:  # a tree too deep to be walked
            return self.source_to_code(data, path)


class _ScriptFinder:
    """Stands in for the script where Python expects a folder with a ``__main__``."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(self, name: str, _target: object = None) -> ModuleSpec | None:
        """The script, for `runpy`, which asks once."""
        if name != "__main__":
            return None
        return ModuleSpec(name, _ScriptLoader(name, self._path), origin=self._path)


class _ScriptLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # the loader's signature
        """The script's code, which first puts things as they are in a script without us."""
        data = self.get_data(self.path)
        sys.path_importer_cache.pop(self.path, None)
        folder = os.path.dirname(os.path.realpath(self.path))
        safe = bool(getattr(sys.flags, "safe_path", False))
        sys.path[0:1] = [] if safe else [folder]
        vars(builtins)[_SETTLE] = self._settle
        try:
            return guarded_code(data, self.path, first=_SETTLE)
        except RecursionError:
            return self.source_to_code(data, self.path)

    def _settle(self) -> None:
        """Give ``__main__`` what Python gives a script, in place of what `runpy` gave it."""
        delattr(builtins, _SETTLE)
        names = sys._getframe(1).f_globals
        loader = SourceFileLoader("__main__", self.path)
        names.update(__spec__=None, __package__=None, __cached__=None, __loader__=loader)
        names["__file__"] = self.path
