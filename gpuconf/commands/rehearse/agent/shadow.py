"""A shadow of the file system: writes go to it, and reads look there first.

A path's shadow is the same path under a folder of the rehearsal.  Files that the program removes
are hidden.  Files that it creates with `tempfile`, and system files, have no shadow.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from typing import Any

_SYSTEM = ("/dev", "/proc", "/sys")
_exists, _is_folder = os.path.lexists, os.path.isdir


class Shadow:
    """Maps paths under ``root``, the rehearsal's folder; calls ``note`` with each path written."""

    def __init__(self, root: str, note: Callable[[str], None]) -> None:
        self._root = os.path.abspath(root)
        self._files = os.path.join(self._root, "files")
        self._note = note
        self._hidden: set[str] = set()
        self._temporary: set[str] = set()

    def leave_alone(self, path: str) -> None:
        """Exempt a temporary file or folder of the program."""
        self._temporary.add(os.path.abspath(path))

    def has_none(self, path: str) -> bool:
        """Whether an absolute path has no shadow."""
        if _is_below(path, (self._root, *_SYSTEM)) or "__pycache__" in path:
            return True
        return bool(self._temporary) and _is_below(path, self._temporary)

    def for_reading(self, path: Any) -> Any:
        """Where to read: the shadow, if it exists or the path has been removed."""
        real = os.path.abspath(os.fsdecode(path))
        if self.has_none(real):
            return path
        shadow = self._of(real)
        return _alike(shadow, path) if _exists(shadow) or self.is_hidden(real) else path

    def for_writing(self, path: Any, *, keep: bool = False, exclusive: bool = False) -> Any:
        """Where to write; ``keep`` the contents, or fail if the file exists (``exclusive``).

        If the real call would fail, the path itself is returned, so that the call fails
        in the same way.
        """
        real = os.path.abspath(os.fsdecode(path))
        if self.has_none(real):
            return path
        shadow = self._of(real)
        there = _exists(real) and not self.is_hidden(real)
        if (exclusive and there) or not self._make_parent(real) or _is_folder(real):
            return path
        if keep and there and not _exists(shadow):
            _copied(real, shadow)
        self._note(real)
        return _alike(shadow, path)

    def for_a_folder(self, path: Any) -> Any:
        """Where to create a folder."""
        real = os.path.abspath(os.fsdecode(path))
        there = _exists(real) and not self.is_hidden(real)
        if self.has_none(real) or there or not self._make_parent(real):
            return path
        return _alike(self._of(real), path)

    def remove(self, path: Any, original: Callable[..., Any], *rest: Any, **named: Any) -> Any:
        """Remove the shadow by calling ``original``, and hide the real file."""
        real = os.path.abspath(os.fsdecode(path))
        if self.has_none(real):
            return original(path, *rest, **named)
        shadow = self._of(real)
        there = _exists(real) and not self.is_hidden(real)
        if there:
            self._refuse(real, original.__name__)
        if _exists(shadow) or not there:
            if _exists(shadow) or self.is_hidden(real):
                original(shadow, *rest, **named)
            else:
                original(path, *rest, **named)  # fails as it would
        self._hidden.add(real)
        return None

    def _refuse(self, real: str, how: str) -> None:
        """Raise the system's error for a non-empty folder, or for a path of the wrong kind."""
        code = None
        if how == "rmdir" and self.listed(real, os.listdir):
            code = errno.ENOTEMPTY
        elif how in ("remove", "unlink") and _is_folder(real) and not os.path.islink(real):
            code = errno.EISDIR
        if code is not None:
            raise OSError(code, os.strerror(code), real)

    def move(self, source: Any, target: Any) -> None:
        """Rename a file or folder."""
        before, after = (os.path.abspath(os.fsdecode(path)) for path in (source, target))
        found = self.for_reading(before)
        place = after if self.has_none(after) else self._of(after)
        if not _exists(found):
            raise FileNotFoundError(
                2, os.strerror(2), os.fsdecode(source), None, os.fsdecode(target)
            )
        self._make_parent(after)
        if found == before and not self.has_none(before):
            _copied(before, place)
        else:
            _moved(found, place)
        if not self.has_none(before):
            self._hidden.add(before)
        if place != after:
            self._note(after)

    def listed(self, path: Any, names: Callable[[Any], Iterable[Any]]) -> dict[str, Any]:
        """The result of ``names`` for a folder and its shadow, by name, without hidden files."""
        real = os.path.abspath(os.fsdecode(path))
        shadow = self._of(real)
        if self.has_none(real) or not (_is_folder(shadow) or self.is_hidden(real)):
            found = {_name(each): each for each in names(path)}
        else:
            is_there = _is_folder(real) and not self.is_hidden(real)
            found = {_name(each): each for each in (names(path) if is_there else ())}
            found.update((_name(each), each) for each in names(shadow))
        return {
            name: each
            for name, each in found.items()
            if os.path.join(real, name) not in self._hidden or _exists(os.path.join(shadow, name))
        }

    def folder_for_writing(self, path: Any) -> Any:
        """Create a folder for files that other code names, and return it."""
        real = os.path.abspath(os.fsdecode(path))
        if self.has_none(real):
            return path
        os.makedirs(self._of(real), exist_ok=True)
        self._note(real)
        return _alike(self._of(real), path)

    def make_folders(self, path: Any) -> None:
        """Create a folder and its parents."""
        real = os.path.abspath(os.fsdecode(path))
        if self.has_none(real):
            os.makedirs(real, exist_ok=True)
        elif not _is_folder(real) or self.is_hidden(real):
            os.makedirs(self._of(real), exist_ok=True)

    def matching(self, pattern: Any, names: Callable[[Any], Iterable[Any]]) -> list[Any]:
        """The result of ``names`` for a pattern, including the shadow and without hidden files."""
        found = [each for each in names(pattern) if not self.is_hidden(os.fsdecode(each))]
        there = self._of(os.path.abspath(os.fsdecode(pattern)))
        new = [_alike(self.real(os.fsdecode(each)), each) for each in names(_alike(there, pattern))]
        return found + [each for each in new if each not in found]

    def is_hidden(self, real: str) -> bool:
        """Whether the program has removed the path or one of its parents."""
        while self._hidden and real != os.path.dirname(real):
            if real in self._hidden:
                return True
            real = os.path.dirname(real)
        return False

    def real(self, path: str) -> str:
        """The path that a shadow replaces; any other path is returned unchanged."""
        return path.removeprefix(self._files) if path.startswith(self._files) else path

    def _of(self, real: str) -> str:
        return self._files + real

    def _make_parent(self, real: str) -> bool:
        """Create a shadow of the path's folder, if that folder exists."""
        parent = os.path.dirname(real)
        shadow = self._of(parent)
        if _is_folder(shadow):
            return True
        if not _is_folder(parent) or self.is_hidden(parent):
            return False
        os.makedirs(shadow, exist_ok=True)
        return True


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _alike(shadow: str, path: Any) -> Any:
    """The shadow as bytes if the path is given as bytes."""
    return os.fsencode(shadow) if isinstance(path, bytes) else shadow


def _name(entry: Any) -> str:
    return os.fsdecode(getattr(entry, "name", entry))


def _copied(source: str, target: str) -> None:
    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def _moved(source: Any, target: str) -> None:
    if os.path.isdir(target) and not os.path.isdir(source):
        raise IsADirectoryError(21, os.strerror(21), target)
    os.replace(source, target)
