"""Waiting for GPU memory, as ``on_shortage: {wait: …}`` specifies."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuconf.basics.terminal import say
from gpuconf.basics.units import short_duration
from gpuconf.errors import ShortageError
from gpuconf.planner import Plan

_POLL_S = 2.0
_REPORT_EVERY_S = 600.0


def wait_for_plan(
    attempt: Callable[[], Plan],
    *,
    pause: Callable[[float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Plan:
    """Return what ``attempt`` returns; try again while it raises a shortage that allows waiting.

    Between two attempts it calls ``pause`` with the number of seconds left, or sleeps two seconds.
    A line on stderr says that it is waiting, another every ten minutes that it still is, and a last
    one that it is continuing. Raises the ShortageError once the time is up.
    """
    started = say_next_at = clock()
    has_waited = False
    while True:
        try:
            plan = attempt()
        except ShortageError as error:
            if error.wait_s is None:
                raise
            now = clock()
            left_s = started + error.wait_s - now
            if left_s <= 0:
                raise _in_vain(error) from None
            if now >= say_next_at:
                say_next_at = now + _REPORT_EVERY_S
                say(_line(error, left_s))
        else:
            if has_waited:
                say(f"waited {clock() - started:.0f} s; continuing")
            return plan
        has_waited = True
        if pause is None:
            sleep(min(_POLL_S, left_s))
        else:
            pause(left_s)


def _line(error: ShortageError, left_s: float) -> str:
    """The line that a waiting program prints: how long, for what, and who holds it."""
    time_left = "" if left_s == float("inf") else f" up to {short_duration(round(left_s))}"
    where = error.message.partition("\n")[0]
    held_by = f"; used or reserved by {error.held_by}" if error.held_by else ""
    return f"waiting{time_left} for memory: {where}{held_by}"


def _in_vain(error: ShortageError) -> ShortageError:
    """The error for a program whose waiting time is over."""
    waited = short_duration(error.wait_s or 0)
    message = f"gave up after {waited}: {error.message}"
    return ShortageError(message, hint=error.hint, shortage=error.shortage)
