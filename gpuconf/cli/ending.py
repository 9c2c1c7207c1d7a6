"""How a command ends that has started programs: with them, whatever ends it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDS_US = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """A signal that ends us ends what we started first, as ^C does."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in _ENDS_US}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
