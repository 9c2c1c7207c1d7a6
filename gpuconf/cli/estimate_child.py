"""Running the probe's child: bounded in time, its output kept, nothing of it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from gpuconf.cli.ending import ended_in_order
from gpuconf.errors import BackendError
from gpuconf.footprint.probe.order import PROGRAM, Order, Record, read_record
from gpuconf.rehearsal.family import Family

_MARK = "GPUCONF_ESTIMATE_PROBE"
_ENDS_US = (signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.05
_MOST_BYTES = 1024 * 1024


class Ended(NamedTuple):
    """A child that has ended: what it wrote to its record and, the last of it, to its streams.

    ``code`` is its exit code, below 0 a signal's number; None where its time was up.
    """

    record: Record
    output: str
    code: int | None


def run_child(
    order: Order,
    *,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    timeout_s: float,
    python: str = sys.executable,
) -> Ended:
    """Run the child to its end, or for ``timeout_s`` seconds; ``tell`` hears what it is at.

    Whatever ends this, a signal too, ends it and all that came of it.  Raises BackendError where
    it cannot be started.
    """
    mark = uuid.uuid4().hex
    with ended_in_order(), _memory_file("record") as record, _memory_file("output") as output:
        command = [python, "-m", PROGRAM, order.as_json(), "--record", str(record)]
        family = Family(f"{_MARK}={mark}")
        child = _start(command, {**environ, _MARK: mark}, record, output)
        try:
            is_over = _watch(child, record, tell, timeout_s)
        finally:
            family.end(child)
        code = child.returncode if is_over else None
        return Ended(read_record(_read(record)), _read(output), code)


def _start(
    command: list[str], environ: Mapping[str, str], record: int, output: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[record],
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(
            f"the probe cannot start {command[0]}: {error.strerror}",
            hint=f"{command[0]} --version",
        ) from error


def _watch(
    child: subprocess.Popen[bytes], record: int, tell: Callable[[str], None], timeout_s: float
) -> bool:
    """Wait for the child; False where its time was up."""
    deadline, told = time.monotonic() + timeout_s, ""
    while child.poll() is None:
        doing = read_record(_read(record)).doing
        if doing != told:
            tell(doing)
            told = doing
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


@contextmanager
def _memory_file(name: str) -> Iterator[int]:
    """A file in memory, which no full disk refuses and no death of its writer empties."""
    descriptor = os.memfd_create(f"gpuconf-{name}")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> str:
    """The last of what was written so far."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - _MOST_BYTES)
    return os.pread(descriptor, size - start, start).decode("utf-8", "replace")
