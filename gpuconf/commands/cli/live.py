"""A view that is redrawn every few seconds until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gpuconf.commands.cli.output import Output, shown
from gpuconf.errors import UsageError
from gpuconf.support.children.signals import held_back, sigterm_as_exit
from gpuconf.support.reporting.lines import Line


def check_terminal(output: Output, hint: str) -> None:
    """Raise UsageError if stdout cannot be redrawn; ``hint`` is the command to run instead."""
    if output.as_json:
        raise UsageError("--watch draws in a terminal, but --json prints one document", hint=hint)
    if output.width is None:
        raise UsageError("--watch draws in a terminal, but stdout is not a terminal", hint=hint)
    if output.screen().is_dumb_terminal:
        raise UsageError("--watch cannot draw in a terminal with TERM=dumb", hint=hint)


def watch(
    make: Callable[[int], Sequence[Line]],
    output: Output,
    interval_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the lines that ``make`` returns for a width until Ctrl-C, then restore the screen.

    Uses the terminal's alternate screen, as `top` and `watch` do.
    """
    console = output.screen()
    with suppress(KeyboardInterrupt), sigterm_as_exit():
        first = _picture(make(console.width), console)
        live = Live(first, console=console, screen=True, auto_refresh=False, redirect_stderr=False)
        try:  # not `with`, which restores nothing if a signal arrives while it enters
            with _put_away(console):
                live.start(refresh=True)
                while True:
                    sleep(interval_s)
                    live.update(_picture(make(console.width), console), refresh=True)
        finally:
            with held_back():
                live.stop()


def _picture(lines: Sequence[Line], console: Console) -> Text:
    """Return as many lines as fit on the screen."""
    room = console.height
    if len(lines) > room:
        more = len(lines) - room + 1
        lines = [*lines[: room - 1], Line(f"{more} more lines; a taller window shows them", "dim")]
    return Text("\n", no_wrap=True, end="").join(map(shown, lines))


@contextmanager
def _put_away(console: Console) -> Iterator[None]:
    """Restore the terminal while Ctrl-Z suspends this process."""
    if sys.platform == "win32":  # which has no such signal
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        console.set_alt_screen(False)
        console.show_cursor(True)
        os.kill(os.getpid(), signal.SIGSTOP)
        console.show_cursor(False)
        console.set_alt_screen(True)

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
