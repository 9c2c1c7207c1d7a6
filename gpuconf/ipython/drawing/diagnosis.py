"""A Diagnosis for notebooks: the cause, its evidence, and the proposed changes."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Diagnosis
from gpuconf.commands.explain.tables import tables_of
from gpuconf.commands.explain.text import STYLES, evidence_lines, fact_rows, headline, lines_of
from gpuconf.support.failures.causes import PAGE_OF_CAUSE
from gpuconf.support.failures.proposals.proposal import Proposal
from gpuconf.support.reporting.html import (
    Markup,
    folded,
    fragment,
    paragraph,
    preformatted,
    table_markup,
    tag,
    to_paste,
)

_MOST_PROPOSALS = 3  # shown expanded


def html_of(diagnosis: Diagnosis) -> str:
    """The diagnosis of a log, with line numbers."""
    return fragment(*blocks_of(diagnosis, ""))


def text_of(diagnosis: Diagnosis) -> str:
    """The text that ``print`` shows."""
    return str(diagnosis)


def exception_html(diagnosis: Diagnosis) -> str:
    """The diagnosis of an exception, without line numbers."""
    return fragment(*blocks_of(diagnosis, None))


def exception_text(diagnosis: Diagnosis) -> str:
    """The same as text."""
    return "\n".join(lines_of(diagnosis, source=None))


def blocks_of(diagnosis: Diagnosis, source: str | None) -> list[Markup]:
    """The report, with the answer first; ``source`` is as for `gpuconf.commands.explain.text`."""
    style = STYLES.get(diagnosis.severity, "bold green")
    blocks = [paragraph(headline(diagnosis), style)]
    rows = [
        tag("tr", tag("td", label, kind="dim"), tag("td", text))
        for label, text in fact_rows(diagnosis)
    ]
    if rows:
        blocks.append(tag("table", *rows))
    blocks += _changes(diagnosis)
    shown = list(evidence_lines(diagnosis.evidence, source, verbose=False))
    if shown:
        blocks += [paragraph("evidence", "bold"), preformatted(shown)]
    page = paragraph(f"about this cause: %{PAGE_OF_CAUSE}{diagnosis.cause}", "dim")
    return [*blocks, *_more(diagnosis, source), page]


def _changes(diagnosis: Diagnosis) -> Iterator[Markup]:
    proposals = diagnosis.proposals
    if not proposals:
        return
    yield paragraph("what to change", "bold")
    yield tag("ol", *map(_proposal, proposals[:_MOST_PROPOSALS]))
    others = proposals[_MOST_PROPOSALS:]
    if others:
        yield folded(f"{len(others)} more", tag("ul", *map(_proposal, others)))


def _proposal(proposal: Proposal) -> Markup:
    reason = paragraph(proposal.reason, "dim")
    return tag("li", proposal.title, reason, to_paste(proposal.paste))


def _more(diagnosis: Diagnosis, source: str | None) -> Iterator[Markup]:
    """All lines, and tables of the memory's contents."""
    parts = (
        ("every line that shows it", diagnosis.evidence),
        ("follow-up and unrelated errors", diagnosis.consequences),
        ("harmless lines", diagnosis.notes),
    )
    for title, found in parts:
        lines = list(evidence_lines(found, source, verbose=True))
        if lines:
            yield folded(f"{title} ({len(found)})", preformatted(lines))
    for table in tables_of(diagnosis):
        yield folded(table.title, table_markup(table._replace(title="")))
