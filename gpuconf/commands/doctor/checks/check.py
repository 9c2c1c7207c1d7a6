"""The type of a check and its four results; the runner fills in the id."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding

NO_GPU = "there is no GPU to check"


class Check(NamedTuple):
    """A check: its id, its subject in one line, and its pure function."""

    id: str
    about: str
    judge: Callable[[Facts], Finding]


def ok(summary: str, *detail: str) -> Finding:
    """Everything is in order."""
    return Finding("", "ok", summary, detail)


def skip(summary: str, *detail: str) -> Finding:
    """There is nothing to check."""
    return Finding("", "skip", summary, detail)


def warn(summary: str, *detail: str, fix: str) -> Finding:
    """It works, but may cause surprises."""
    return Finding("", "warn", summary, detail, fix)


def fail(summary: str, *detail: str, fix: str) -> Finding:
    """Something does not work."""
    return Finding("", "fail", summary, detail, fix)
