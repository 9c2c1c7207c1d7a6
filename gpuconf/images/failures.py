"""Files that cannot be read as images: named in an error or skipped, with their place in a list."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuconf.basics.terminal import say
from gpuconf.errors import GpuconfError

SKIP_HINT = 'repair or remove the file, or skip such files: on_error="skip"'
# Maximum number of skipped files named in one line; the list has all of them.
_NAMED = 3
# Maximum number of list entries named in an error.
_ENTRIES_NAMED = 5


class ImageError(GpuconfError, ValueError):
    """A file that cannot be read as an image; ``path`` is its name, as `os.fsdecode` returns it."""

    def __init__(self, message: str, *, hint: str | None = None, path: str | None = None) -> None:
        super().__init__(printable(message), hint=None if hint is None else printable(hint))
        self.path = path

    @property
    def reason(self) -> str:
        """The message without the file name in front."""
        return self.message.removeprefix(f"{printable(self.path or '')}: ")


def out_of_memory(name: str) -> MemoryError:
    """The error for an intact file that does not fit in memory while it is decoded."""
    return MemoryError(
        printable(f"{name}: this machine has no memory left to decode it")
        + "\n  hint: set a smaller host_limit, or see how much memory is in use: free -h"
    )


def printable(text: str) -> str:
    r"""``text`` with ``\udcff`` for bytes of file names that are not UTF-8.

    A terminal cannot show such characters, and TensorFlow 2.15 crashes on an exception that
    contains any.
    """
    return text.encode("utf-8", "backslashreplace").decode()


class Failure(NamedTuple):
    """A file that was skipped, and why."""

    path: str
    reason: str


class Failures:
    """The files that were skipped, each once, and how many in the current epoch.

    This is ``dataset.skipped``: it has a length, can be iterated over and printed, and grows while
    the dataset is read. Threads may note failures at the same time.
    """

    def __init__(self, file_count: int) -> None:
        self._file_count = file_count
        self._reasons: dict[str, str] = {}
        # By place in the list, because Keras reads some batches twice before an epoch.
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
        """Record that the file at this place in the list was skipped."""
        with self._lock:
            self._reasons[path] = reason
            self._in_this_epoch[place] = path

    def begin_epoch(self) -> None:
        """Forget how many were skipped in an epoch that was not read to the end."""
        with self._lock:
            self._in_this_epoch.clear()

    def end_epoch(self) -> None:
        """Report how many were skipped; raise an ImageError if none are left."""
        with self._lock:
            paths = list(self._in_this_epoch.values())
            self._in_this_epoch.clear()
        if not paths:
            return
        if len(paths) >= self._file_count:
            raise self.none_left()
        say(printable(self._summary(paths)))

    def none_left(self) -> ImageError:
        """The error for a dataset whose files are all unreadable."""
        path, reason = next(iter(self._reasons.items()))
        return ImageError(
            f"none of the {self._file_count} images could be read; the first is {path}: {reason}",
            hint="check the list's folder: a relative path starts at the list's own folder",
            path=path,
        )

    def _summary(self, paths: list[str]) -> str:
        named = [f"{path} ({self._reasons[path]})" for path in sorted(set(paths))[:_NAMED]]
        more = len(set(paths)) - len(named)
        rest = f" and {more} more" if more else ""
        return (
            f"images: skipped {len(paths)} of {self._file_count} in this epoch: "
            f"{', '.join(named)}{rest}; all of them are in .skipped"
        )


class Origin(NamedTuple):
    """The source of a list of images, so that an error can name the faulty entry.

    ``source`` is the file or table, None for a list in the caller's code. ``lines`` are the line
    numbers in a text file, from 1; rows of other tables and images are counted from 0.
    """

    source: str | None = None
    lines: Sequence[int] | None = None

    def named(self, places: Sequence[int], paths: Sequence[bytes] = ()) -> str:
        """``line 3 (cat/7.jpg) and 12 more of list.csv``, ``image 2 (7.jpg), counted from 0``."""
        named_entries = ", ".join(self._one(place, paths) for place in places[:_ENTRIES_NAMED])
        more = f" and {len(places) - _ENTRIES_NAMED} more" if len(places) > _ENTRIES_NAMED else ""
        of = "" if self.source is None else f" of {self.source}"
        return f"{named_entries}{more}{of}{', counted from 0' if self.lines is None else ''}"

    def _one(self, place: int, paths: Sequence[bytes]) -> str:
        path = f" ({printable(os.fsdecode(paths[place]))})" if paths else ""
        if self.lines is not None:
            return f"line {self.lines[place]}{path}"
        return f"{'image' if self.source is None else 'row'} {place}{path}"
