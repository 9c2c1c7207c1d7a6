"""Ctrl-C at every line, for programs of tests that ask what is left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import FrameType
from typing import Any


def interruptions(
    function: Callable[[], object], within: str | tuple[str, ...], step: int = 1
) -> Iterator[int]:
    """Call ``function`` again and again, each time with KeyboardInterrupt ``step`` lines later.

    Yields the number of each line, which counts in files whose path begins with ``within``; a line
    in a loop counts at each pass.  Ends when the call comes through.
    """
    for number in count(1, step):
        if not _interrupted_at(number, function, within):
            return
        yield number


def _interrupted_at(
    number: int, function: Callable[[], object], within: str | tuple[str, ...]
) -> bool:
    """Call ``function`` with KeyboardInterrupt at that line; False if it runs fewer."""
    seen = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(within):
            return None
        if event == "line":
            seen += 1
            if seen == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False
