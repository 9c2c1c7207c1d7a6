"""Signals: end what we started before we end, and name the signal that ended a child."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM,) if sys.platform == "win32" else (signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
PARENT_VARIABLE = "GPUCONF_PARENT"  # the process that started this one


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that cleanup runs as it does after Ctrl-C.

    If C++ code such as TensorFlow's turns the SystemExit into another error, or drops it, it is
    raised again at the end of the block.
    """
    came: list[int] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        came.append(number)
        sys.exit(128 + number)

    with _handled(_ENDING, end):
        try:
            yield
        except Exception:
            if not came:
                raise
        if came:
            sys.exit(128 + came[0])


@contextmanager
def held_back() -> Iterator[None]:
    """Delay signals that would end this process until the block is done.

    This uses a handler, not a mask: another thread would receive a signal masked in this one.
    """
    came: list[int] = []
    try:
        with _handled((signal.SIGINT, *_ENDING), lambda number, _frame: came.append(number)):
            yield
    finally:
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def _handled(
    numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """Set a handler temporarily.  Ignored signals stay ignored, as `nohup` requires."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it runs them
        return
    kept = (signal.SIG_IGN, None)  # None: set by C code and cannot be restored
    before = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) not in kept}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def signal_name(number: int) -> str:
    """Return ``SIGSEGV``, or ``signal 40`` for a real-time signal; most of these have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, even if by SIGKILL.

    If the parent ended while this Python was starting, this process ends now.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if parent and os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGKILL)
