"""The most informative line of an error.  Pure."""

from __future__ import annotations

import re

from gpuconf.support.failures.outcome import says_nothing
from gpuconf.support.failures.reading import Reading

# TensorFlow's additions to a message: the node before it, the operation after it.
_BRACKETS = re.compile(
    r"\{\{[^}]{1,1000}\}\}\s{0,9}|\s{0,9}\[Op:\w{1,200}\](?:\s{0,9}name:.{0,200})?$"
)
_COLORS = re.compile(r"\x1b\[[0-9;]{0,20}m")


def headline(message: str, reading: Reading) -> str:
    """The line of an error's ``message`` that shows the cause found in ``reading``.

    Without a cause, it is the first informative line: Keras puts "Graph execution error:" and pages
    of "Detected at node" before the message.
    """
    lines = [line for each in message.splitlines() if (line := plain(each))]
    shown = [plain(each.text) for each in sorted(reading.evidence, key=lambda each: each.generic)]
    of_the_cause = [line for text in shown if (line := _line_of(text, lines))]
    return next(
        iter([*of_the_cause, *(line for line in lines if not says_nothing(line)), *lines]), ""
    )


def _line_of(text: str, lines: list[str]) -> str:
    """Find the line for ``text``, which may start with the class name or be cut off at the end.

    Takes the longest match, because a code line such as "fit(" occurs in many texts.
    """
    found = [line for line in lines if line in text or (text and line.startswith(text))]
    return max(found, key=len, default="")


def plain(line: str) -> str:
    """A line stripped of colors and TensorFlow's brackets."""
    return _BRACKETS.sub("", _COLORS.sub("", line).strip()).strip()
