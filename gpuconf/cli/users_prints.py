"""What a user's code prints in our process, in Python or below: to stderr, beside the report."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Keep what the user's code prints, in Python or below, out of the report on stdout."""
    _open_closed_streams()
    if sys.stdout is not None:
        sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(before, 1)
        os.close(before)
        atexit.register(_leave_stdout_alone)  # runs before what the user's code has registered


def _open_closed_streams() -> None:
    """A process that was started without a stream must not take its number for another file."""
    lowest = os.open(os.devnull, os.O_RDWR)
    while lowest <= 2:
        lowest = os.dup(lowest)
    os.close(lowest)


def _leave_stdout_alone() -> None:
    """What the user's code prints when the process ends comes after the report: not to stdout."""
    with contextlib.suppress(OSError):
        if sys.stdout is not None:
            sys.stdout.flush()
        os.dup2(2, 1)
        sys.stdout = sys.stderr
