"""A doctor's Report for notebooks: each problem with the command that fixes it, and the cards."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.commands.doctor.page import headline
from gpuconf.commands.doctor.report import CardReport, MemoryBar, Report
from gpuconf.commands.doctor.text import TextLayout, finding_lines, lines_of
from gpuconf.support.reporting.html import (
    BARS,
    BarPart,
    Markup,
    bar,
    folded,
    fragment,
    paragraph,
    preformatted,
)

_KINDS = (BARS[0], BARS[1], BARS[2], BARS[-1])


def html_of(report: Report) -> str:
    """Problems first, then the cards; a click shows every check."""
    style = "bold red" if report.counts["fail"] else "bold yellow" if report.problems else "green"
    whole = TextLayout(verbose=True)
    return fragment(
        paragraph(headline(report), style),
        *(preformatted(finding_lines(each, whole)) for each in report.problems),
        *(block for card in report.cards for block in _card(card, report, str(card.index))),
        folded(
            f"every check ({len(report.findings)})",
            *(preformatted(finding_lines(each, whole)) for each in report.findings),
        ),
    )


def text_of(report: Report) -> str:
    """The text that `gpuconf doctor` prints to a file."""
    return "\n".join(line.text for line in lines_of(report))


def _card(card: CardReport, report: Report, number: str) -> Iterator[Markup]:
    yield paragraph(f"GPU {number}  {card.name or 'name unknown'}", "bold")
    if card.bar is not None:
        meanings = MemoryBar.meanings(report.profile.name if report.profile else "the profile")
        parts = zip(meanings, card.bar, _KINDS, strict=True)
        yield bar([BarPart(*part) for part in parts])
    if card.remarks:
        yield paragraph("; ".join(card.remarks), "dim")
    for place, each in enumerate(card.instances):
        yield from _card(each, report, f"{number}.{place}")
