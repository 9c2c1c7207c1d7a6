"""What a check is, and the four ways it comes out, whose id the runner fills in."""

from __future__ import annotations

from collections.abc import Callable

from gpuconf.doctor.facts import Facts
from gpuconf.doctor.finding import Finding
from gpuconf.records import NamedTuple

NO_GPU = "there is no GPU to check"


class Check(NamedTuple):
    """A check: its id, what it looks at in one line, and the judgement itself, which is pure."""

    id: str
    about: str
    judge: Callable[[Facts], Finding]


def ok(summary: str, *detail: str) -> Finding:
    """All is as it should be."""
    return Finding("", "ok", summary, detail)


def skip(summary: str, *detail: str) -> Finding:
    """There is nothing here to judge."""
    return Finding("", "skip", summary, detail)


def warn(summary: str, *detail: str, fix: str) -> Finding:
    """It works, and will surprise."""
    return Finding("", "warn", summary, detail, fix)


def fail(summary: str, *detail: str, fix: str) -> Finding:
    """Something does not work."""
    return Finding("", "fail", summary, detail, fix)
