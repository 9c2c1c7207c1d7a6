"""Run a child with a time limit and a record file, and return what it wrote as text."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gpuconf.errors import BackendError
from gpuconf.support.children.family import AdoptingFamily

_POLL_S = 0.05
_HEAD_BYTES = 64 * 1024
_TAIL_BYTES = 1024 * 1024


class Ended(NamedTuple):
    """A child that has ended, together with everything it started.

    ``record`` is the text of its record, and ``output`` is the text of stdout and stderr; the
    middle of a long text is cut out. ``code`` is its exit code, negative for a signal, and None if
    it was ended because its time, ``limit_s``, was up. ``is_stuck`` means that not even SIGKILL
    ended it.
    """

    record: str
    output: str
    code: int | None
    limit_s: float
    is_stuck: bool


def run_recorded(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    watch: Callable[[str], float],
    patience_s: float = 20.0,
) -> Ended:
    """Run ``command`` with ``--record FD`` appended, until it ends or its time is up.

    ``watch`` is called repeatedly with the record so far, and once at the end; it returns the total
    number of seconds that the child may take.  A child stuck inside a driver is given
    ``patience_s`` seconds to end after it is killed.  Raises BackendError if it cannot be started.
    """
    with memory_file("record") as record, memory_file("output") as output:
        with AdoptingFamily(patience_s=patience_s) as family:
            try:
                child = family.start(
                    [*command, "--record", str(record)],
                    environ,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[record],
                )
            except OSError as error:
                raise BackendError(
                    f"the probe cannot start {command[0]}: {error.strerror}",
                    hint=f"{command[0]} --version",
                ) from error
            started = time.monotonic()
            while True:
                code = child.poll()
                limit_s = watch(ends_of(record))
                if code is not None or time.monotonic() > started + limit_s:
                    break
                time.sleep(_POLL_S)
        return Ended(ends_of(record), ends_of(output), code, limit_s, not family.is_gone)


@contextmanager
def memory_file(name: str) -> Iterator[int]:
    """A file in memory: a full disk cannot block it, and its content outlives the writer.

    Only Linux has such files; elsewhere it is a temporary file.
    """
    if sys.platform != "linux":
        with tempfile.TemporaryFile(prefix=f"gpuconf-{name}") as file:
            yield file.fileno()
        return
    import fcntl  # not on Windows

    made = os.memfd_create(f"gpuconf-{name}")
    # 0 to 2 are free if the program has closed its own streams, and the child's streams go there.
    descriptor = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(made)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def whole_text_of(descriptor: int) -> str:
    """Return everything written to a memory file so far."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")


def ends_of(descriptor: int) -> str:
    """Return the beginning and end of a memory file's text; all of it if it is short."""
    size = os.fstat(descriptor).st_size
    if size <= _HEAD_BYTES + _TAIL_BYTES:
        return whole_text_of(descriptor)
    head = os.pread(descriptor, _HEAD_BYTES, 0)
    tail = os.pread(descriptor, _TAIL_BYTES, size - _TAIL_BYTES)
    return (head + b"\n[...]\n" + tail).decode("utf-8", "replace")
