"""The Diagnosis: what was found, as values."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.diagnosis.causes import CAUSES, Severity
from gpuconf.diagnosis.facts.allocations import Allocations
from gpuconf.diagnosis.facts.card import Card
from gpuconf.diagnosis.facts.dump import Dump
from gpuconf.diagnosis.facts.framework import Framework
from gpuconf.diagnosis.facts.tensor import Request
from gpuconf.diagnosis.facts.user_code import Frame

SEVERITIES: dict[Severity, str] = {
    "failure": "the run failed",
    "silent-cpu-fallback": "the run goes on, on the CPU",
    "warning-only": "the run went on",
    "not-gpu": "not a matter of a GPU",
}


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


class Proposal(NamedTuple):
    """A change: what to do, why, and something to paste.

    ``kind`` is profile (YAML), code (Python), command (a shell's) or batch (Python again).
    """

    title: str
    reason: str
    kind: str
    paste: str


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


class Diagnosis(NamedTuple):
    """A log's or an exception's cause, how bad it is, and what to change.

    ``cause`` is one of the ids in `gpuconf.diagnosis.causes.CAUSES`, ``also`` are further ones,
    in the order of the log.  ``evidence`` has the lines that show the cause, ``consequences``
    those that came of it or stand beside it, ``notes`` what looks bad and is not.
    """

    cause: str
    severity: Severity
    also: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    consequences: tuple[Evidence, ...] = ()
    notes: tuple[Evidence, ...] = ()
    facts: Facts = Facts()
    proposals: tuple[Proposal, ...] = ()
    line_count: int = 0

    @property
    def title(self) -> str:
        """The cause, for people."""
        return CAUSES[self.cause].title

    @property
    def is_about_memory(self) -> bool:
        """Whether a GPU's memory is the cause."""
        return self.cause.startswith("oom-device") or self.cause in _MEMORY

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as ``gpuconf explain --json`` prints it."""
        from gpuconf.diagnosis.document import as_document

        return as_document(self)

    def __str__(self) -> str:
        from gpuconf.diagnosis.text import lines_of

        return "\n".join(lines_of(self))

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How IPython and Jupyter show it."""
        printer.text(str(self))


_MEMORY = {
    "whole-array-copied", "fragmentation", "cudnn-handle-alloc", "cublas-alloc", "jax-oom",
    "torch-oom",
}  # fmt: skip
