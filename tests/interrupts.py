"""Ctrl-C at every line, for programs of tests that ask what is left behind."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

Place = tuple[tuple[CodeType, int], ...]


def interruptions(
    function: Callable[[], object], within: str | tuple[str, ...], *, except_in: str | None = None
) -> Iterator[int]:
    """Call ``function`` again and again, each time with KeyboardInterrupt at a later line.

    Yields the number of each line, which counts in files whose path begins with ``within``, and
    not with ``except_in``.  Ends when the call comes through.
    """
    number, times = 0, Counter[Place]()
    while True:
        at = _interrupted_from(number + 1, function, times, within, except_in)
        if at is None:
            return
        number = at
        yield number


def _place(frame: FrameType | None) -> Place:
    """The line, and those from which it is reached."""
    lines = []
    while frame is not None:
        lines.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)


def _interrupted_from(
    number: int,
    function: Callable[[], object],
    times: Counter[Place],
    within: str | tuple[str, ...],
    except_in: str | None,
) -> int | None:
    """Interrupt at that line, or the first after it at a place where there were not two yet."""
    seen, at = 0, None

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal seen, at
        file = frame.f_code.co_filename
        if not file.startswith(within) or (except_in is not None and file.startswith(except_in)):
            return None
        if event == "line":
            seen += 1
            if seen >= number and times[here := _place(frame)] < 2:
                times[here] += 1
                at = seen
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return at
