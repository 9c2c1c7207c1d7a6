"""The Diagnosis of ``gpuconf explain``: the cause and its evidence, and the proposed changes."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.basics.display import shown_in_notebooks
from gpuconf.basics.json_shape import Count, json_shape
from gpuconf.basics.json_values import plain
from gpuconf.support.failures.causes import CAUSES, OF_GPU_MEMORY, CauseId, Severity
from gpuconf.support.failures.proposals.proposal import Proposal
from gpuconf.support.failures.reading import Evidence, LogFacts
from gpuconf.support.reporting.text import text_of


@shown_in_notebooks
@json_shape(computed=("title",))
class Diagnosis(NamedTuple):
    """The cause of a failure in a log or an exception, its severity, and the proposed changes.

    docs/causes/ describes each cause.
    """

    cause: CauseId
    """The root cause."""
    severity: Severity
    """failure: the run failed; silent-cpu-fallback: it continues on the CPU; warning-only: it
    continued; not-gpu: not a GPU problem.
    """
    also: tuple[CauseId, ...] = ()
    """Further causes, in log order."""
    evidence: tuple[Evidence, ...] = ()
    """The lines that show the cause."""
    consequences: tuple[Evidence, ...] = ()
    """The lines of follow-up and unrelated errors."""
    notes: tuple[Evidence, ...] = ()
    """Harmless lines that look bad."""
    facts: LogFacts = LogFacts()
    """Facts in the log other than the cause."""
    proposals: tuple[Proposal, ...] = ()
    """The proposed changes, most promising first."""
    line_count: Count = 0
    """The number of lines in the log."""

    @property
    def title(self) -> str:
        """The cause's title, in human-readable form."""
        return CAUSES[self.cause].title

    @property
    def is_about_memory(self) -> bool:
        """Whether the cause is about GPU memory."""
        return self.cause in OF_GPU_MEMORY

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as printed by ``gpuconf explain --json``."""
        document: dict[str, Any] = plain(self)
        return document

    def __str__(self) -> str:
        return text_of(self)
