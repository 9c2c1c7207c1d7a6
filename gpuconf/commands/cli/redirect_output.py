"""Redirects the output of user code, whether Python or native, to stderr, away from the report."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send the output of user code, whether Python or native, to stderr, apart from the report."""
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
        atexit.register(_leave_stdout_alone)  # runs before the handlers of the user's code


def _open_closed_streams() -> None:
    """Open the missing standard streams, so that no other file gets their descriptors."""
    lowest = os.open(os.devnull, os.O_RDWR)
    while lowest <= 2:
        lowest = os.dup(lowest)
    os.close(lowest)


def _leave_stdout_alone() -> None:
    """Send output that user code prints at exit, after the report, to stderr as well."""
    with contextlib.suppress(OSError):
        if sys.stdout is not None:
            sys.stdout.flush()
        os.dup2(2, 1)
        sys.stdout = sys.stderr
