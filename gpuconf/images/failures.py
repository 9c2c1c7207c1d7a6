"""Files that give no picture: named in an error, or skipped, counted and listed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

from gpuconf.errors import GpuconfError
from gpuconf.terminal import say

SKIP_HINT = 'mend or remove the file, or go on without such files: on_error="skip"'
# So many are named in one line; all of them are in the list.
_NAMED = 3


class ImageError(GpuconfError, ValueError):
    """A file that gives no picture; ``path`` is its name, as `os.fsdecode` gives it."""

    def __init__(self, message: str, *, hint: str | None = None, path: str | None = None) -> None:
        super().__init__(printable(message), hint=None if hint is None else printable(hint))
        self.path = path

    @property
    def reason(self) -> str:
        """The message without the file's name, which stands before it."""
        return self.message.removeprefix(f"{printable(self.path or '')}: ")


def out_of_memory(name: str) -> MemoryError:
    """For a file that the machine had no memory to decode: nothing is wrong with the file."""
    return MemoryError(
        printable(f"{name}: this machine has no memory left to decode it")
        + "\n  hint: a smaller host_limit; or find what else holds memory: free -h"
    )


def printable(text: str) -> str:
    r"""``text`` with bytes of names that are no UTF-8 as ``\udcff``.

    They cannot be written to a terminal, and TensorFlow 2.15 crashes on an exception that has some.
    """
    return text.encode("utf-8", "backslashreplace").decode()


class Failure(NamedTuple):
    """A file that was skipped, and why."""

    path: str
    reason: str


class Failures:
    """The files that were skipped, each once, and how many in the epoch that is running.

    It is what ``dataset.skipped`` is: it has a length, can be iterated and printed, and grows
    while the dataset is read.  Threads may note failures at the same time.
    """

    def __init__(self, file_count: int) -> None:
        self._file_count = file_count
        self._reasons: dict[str, str] = {}
        # By their places in the list: Keras reads some batches twice, before it begins.
        self._in_this_epoch: dict[int, str] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._reasons)

    def __iter__(self) -> Iterator[Failure]:
        with self._lock:
            known = list(self._reasons.items())
        return (Failure(path, reason) for path, reason in known)

    def __str__(self) -> str:
        lines = [f"skipped {len(self)} of {self._file_count} images"]
        return printable("\n".join([*lines, *(f"  {path}: {reason}" for path, reason in self)]))

    __repr__ = __str__  # what a notebook shows

    def note(self, place: int, path: str, reason: str) -> None:
        """The file at this place in the list was skipped."""
        with self._lock:
            self._reasons[path] = reason
            self._in_this_epoch[place] = path

    def begin_epoch(self) -> None:
        """Forget how many were skipped in an epoch that was not read to its end."""
        with self._lock:
            self._in_this_epoch.clear()

    def end_epoch(self) -> None:
        """Say how many were skipped; an epoch of nothing else is an ImageError."""
        with self._lock:
            paths = list(self._in_this_epoch.values())
            self._in_this_epoch.clear()
        if not paths:
            return
        if len(paths) >= self._file_count:
            raise self.none_left()
        say(printable(self._told(paths)))

    def none_left(self) -> ImageError:
        """The error for a dataset that has no file left."""
        path, reason = next(iter(self._reasons.items()))
        return ImageError(
            f"none of the {self._file_count} images could be read; the first is {path}: {reason}",
            hint="check the list's folder: a relative path is looked up from the list's own",
            path=path,
        )

    def _told(self, paths: list[str]) -> str:
        named = [f"{path} ({self._reasons[path]})" for path in sorted(set(paths))[:_NAMED]]
        more = len(set(paths)) - len(named)
        rest = f" and {more} more" if more else ""
        return (
            f"images: skipped {len(paths)} of {self._file_count} in this epoch: "
            f"{', '.join(named)}{rest}; all of them are in .skipped"
        )
