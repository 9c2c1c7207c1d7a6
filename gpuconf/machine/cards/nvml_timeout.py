"""Wait a limited time for an answer that may never come, with a message after a while.

A hung driver blocks inside a call that cannot be interrupted.  So a thread makes the call (ctypes
releases the GIL), and on timeout the thread is abandoned.  It is a daemon thread, which does not
keep the process from exiting. It holds none of our locks while it hangs, so a forked child, where
the thread does not exist, can query again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from gpuconf.basics.terminal import say
from gpuconf.errors import UsageError

T = TypeVar("T")

VARIABLE = "GPUCONF_NVML_TIMEOUT"
DEFAULT_TIMEOUT_S = 10.0
NOTICE_AFTER_S = 2.0
_LONGEST_S = 86400.0

# Abandoned threads.  One that is no longer alive has returned, or was left behind by a fork.
_given_up: list[threading.Thread] = []


class NoAnswerError(Exception):
    """NVML did not answer; the text is a human-readable sentence."""


def read_timeout_s(environ: Mapping[str, str]) -> float:
    """Return the number of seconds that NVML has to answer; raise UsageError if it is invalid."""
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if 0 < seconds <= _LONGEST_S:  # false for nan
        return seconds
    raise UsageError(
        f"{VARIABLE} is {text!r}; it must be a number of seconds greater than 0 and at most "
        f"{_LONGEST_S:g}",
        hint=f"export {VARIABLE}=30   # the default is {DEFAULT_TIMEOUT_S:g} seconds",
    )


def call_with_timeout(
    question: Callable[[], T],
    *,
    timeout_s: float,
    notice_after_s: float = NOTICE_AFTER_S,
    notify: Callable[[str], None] = say,
) -> T:
    """Return or raise the result of ``question``; raise NoAnswerError after ``timeout_s``.

    After ``notice_after_s``, one line is passed to ``notify``. While an earlier query is stuck, no
    new one is made, because it would hang as well.
    """
    if _is_stuck():
        raise NoAnswerError("NVML still has not responded to an earlier query")
    answers: list[T] = []
    errors: list[BaseException] = []
    thread = threading.Thread(
        target=_answer, args=(question, answers, errors), name="gpuconf-nvml", daemon=True
    )
    try:
        thread.start()
    except RuntimeError:  # no new thread: a system limit, or the interpreter is exiting
        return question()
    try:
        _join(thread, timeout_s, notice_after_s, notify)
    finally:  # also on Ctrl-C, which interrupts a join at once
        if thread.is_alive():
            _given_up.append(thread)
    if errors:
        raise errors[0]
    if not answers:
        raise NoAnswerError(f"NVML did not respond within {timeout_s:g} s")
    return answers[0]


def _is_stuck() -> bool:
    _given_up[:] = [thread for thread in _given_up if thread.is_alive()]
    return bool(_given_up)


def _answer(question: Callable[[], T], answers: list[T], errors: list[BaseException]) -> None:
    try:
        answers.append(question())
    except BaseException as error:
        errors.append(error)


def _join(
    thread: threading.Thread, timeout_s: float, notice_after_s: float, notify: Callable[[str], None]
) -> None:
    """Wait for ``thread`` to end, so that none of our threads is left when the program forks."""
    first_s = min(notice_after_s, timeout_s)
    thread.join(first_s)
    if not thread.is_alive() or first_s == timeout_s:
        return
    notify(
        f"NVML is not responding; waiting up to {timeout_s:g} s, then continuing without GPU "
        f"information (set {VARIABLE} to change this)"
    )
    thread.join(timeout_s - first_s)
