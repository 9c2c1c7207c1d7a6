"""The Diagnosis of ``gpuconf explain``: what was read, and what to change."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.messages.causes import CAUSES, OF_GPU_MEMORY, Severity
from gpuconf.messages.reading import Evidence, Facts


class Proposal(NamedTuple):
    """A change: what to do, why, and something to paste.

    ``kind`` is profile (YAML), code (Python), command (a shell's) or batch (Python again).
    """

    title: str
    reason: str
    kind: str
    paste: str


class Diagnosis(NamedTuple):
    """A log's or an exception's cause, how bad it is, and what to change.

    ``cause`` is one of the ids in `gpuconf.messages.causes.CAUSES`, ``also`` are further ones,
    in the order of the log.  ``evidence`` has the lines that show the cause, ``consequences``
    those of follow-up and unrelated errors, ``notes`` harmless warnings.
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
        return self.cause in OF_GPU_MEMORY

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
