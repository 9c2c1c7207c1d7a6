"""The Diagnosis of ``gpuconf explain``: what was read, and what to change."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from gpuconf.json_shape import Count, json_shape
from gpuconf.json_values import plain
from gpuconf.messages.causes import CAUSES, OF_GPU_MEMORY, CauseId, Severity
from gpuconf.messages.reading import Evidence, LogFacts
from gpuconf.reporting.text import text_of


class Proposal(NamedTuple):
    """A change: what to do, why, and something to paste."""

    title: str
    """What to do."""
    reason: str
    """Why, with the sum where there is one."""
    kind: Literal["profile", "code", "command", "batch"]
    """What is to be pasted: profile is YAML, code and batch are Python, command is a shell's."""
    paste: str
    """What to paste; several lines."""


@json_shape(computed=("title",))
class Diagnosis(NamedTuple):
    """A log's or an exception's cause, how bad it is, and what to change.

    docs/explain.md describes each cause.
    """

    cause: CauseId
    """The root cause."""
    severity: Severity
    """failure: the run failed; silent-cpu-fallback: it goes on, on the CPU; warning-only: it went
    on; not-gpu: not a matter of a GPU.
    """
    also: tuple[CauseId, ...] = ()
    """Further causes, in the order of the log."""
    evidence: tuple[Evidence, ...] = ()
    """The lines that show the cause."""
    consequences: tuple[Evidence, ...] = ()
    """The lines of follow-up and unrelated errors."""
    notes: tuple[Evidence, ...] = ()
    """Harmless lines that look bad."""
    facts: LogFacts = LogFacts()
    """What the log says beyond the cause."""
    proposals: tuple[Proposal, ...] = ()
    """What to change, the likeliest to help first."""
    line_count: Count = 0
    """The lines of the log; 0 for a file of TF_BFC_MEMORY_DUMP."""

    @property
    def title(self) -> str:
        """The cause, for people."""
        return CAUSES[self.cause].title

    @property
    def is_about_memory(self) -> bool:
        """Whether a GPU's memory is the cause."""
        return self.cause in OF_GPU_MEMORY

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as ``gpuconf explain --json`` prints it."""
        document: dict[str, Any] = plain(self)
        return document

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from gpuconf import rich_display

        return rich_display.html_of(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How IPython shows it as text."""
        from gpuconf import rich_display

        printer.text(rich_display.text_of(self))
