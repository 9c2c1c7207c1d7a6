"""What was read from a log or an exception, as values."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.messages.causes import Severity
from gpuconf.messages.facts.allocations import Allocations
from gpuconf.messages.facts.card import Card
from gpuconf.messages.facts.dump import Dump
from gpuconf.messages.facts.framework import Framework
from gpuconf.messages.facts.tensor import Request
from gpuconf.messages.facts.user_code import Frame


class Evidence(NamedTuple):
    """A line of the log: its number, its text, what it means, how many like it there are.

    A ``generic`` one says less than the others of its cause.
    """

    line: int
    text: str
    means: str
    cause: str | None
    lines: int
    generic: bool = False


class Facts(NamedTuple):
    """What the log tells besides the cause; None and empty is what it does not tell."""

    request: Request = Request()
    card: Card | None = None
    dump: Dump | None = None
    allocations: Allocations | None = None
    batch_size: int | None = None
    user_code: Frame | None = None
    exception: str | None = None
    cut_off: str | None = None
    framework: Framework | None = None
    on_windows: bool = False
    versions: dict[str, str] = {}  # noqa: RUF012  # never changed
    details: dict[str, object] = {}  # noqa: RUF012  # likewise


class Reading(NamedTuple):
    """What a log or an exception says: the cause, how bad it is, and the lines that show it.

    ``cause`` is one of the ids in `gpuconf.messages.causes.CAUSES`, ``also`` are further ones, in
    the order of the log.  ``evidence`` are the lines that show the cause, ``consequences`` those of
    follow-up and unrelated errors, ``notes`` those that look bad and are harmless.
    """

    cause: str
    severity: Severity
    also: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    consequences: tuple[Evidence, ...] = ()
    notes: tuple[Evidence, ...] = ()
    facts: Facts = Facts()
    line_count: int = 0
