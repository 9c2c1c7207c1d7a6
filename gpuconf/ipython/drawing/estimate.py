"""A MemoryEstimate for notebooks: the parts of the peak, against the limit, and by layer."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.basics.units import sized
from gpuconf.commands.estimate.budget import Budget, card_lines, limit_lines
from gpuconf.commands.estimate.memory_estimate import Advice, MemoryEstimate
from gpuconf.commands.estimate.peak_sum import PASSING, RESIDENT, peak_figures, peak_kinds, peak_sum
from gpuconf.commands.estimate.text import (
    headline,
    modelled,
    phase_lines,
    place_in_words,
    report,
    table_cells,
)
from gpuconf.support.reporting.html import (
    BarPart,
    Markup,
    bar,
    folded,
    fragment,
    paragraph,
    preformatted,
    table_markup,
    tag,
    to_paste,
)
from gpuconf.support.reporting.lines import Line, Table


def html_of(estimate: MemoryEstimate) -> str:
    """An estimate without information about the limit's source."""
    return html_with(estimate, Budget())


def text_of(estimate: MemoryEstimate) -> str:
    """The text that ``print`` shows."""
    return str(estimate)


def text_with(estimate: MemoryEstimate, budget: Budget) -> str:
    """The text that the command prints, with the source of the limit."""
    return "\n".join(line.text for line in report(estimate, budget=budget))


def html_with(estimate: MemoryEstimate, budget: Budget) -> str:
    """The answer first, then the sum, the layers, the limit and ways to save memory."""
    style = "bold red" if estimate.fits is False else "bold green"
    return fragment(
        paragraph(headline(estimate), style),
        paragraph(modelled(estimate), "dim"),
        bar(list(_parts(estimate))),
        paragraph(f"the peak is {place_in_words(estimate.peak)}"),
        *_layers(estimate),
        folded("the peak as a sum", _sum(estimate)),
        folded("at any batch", preformatted(phase_lines(estimate))) if estimate.phases else "",
        folded("the limit and the card", preformatted(_limit(estimate, budget))),
        *_advice(estimate.advice),
        *(paragraph(f"note: {note}", "dim") for note in estimate.notes),
    )


def _parts(estimate: MemoryEstimate) -> Iterator[BarPart]:
    """The parts of the peak, and the remainder of the limit."""
    kinds = peak_kinds(estimate)
    resident = sum(kinds.get(kind, 0) for kind in RESIDENT)
    passing = sum(kinds.get(kind, 0) for kind in PASSING)
    yield BarPart("stays between steps", resident, "leased")
    yield BarPart("only during a step", passing, "ours")
    yield BarPart("rounding and more", estimate.peak_bytes - resident - passing, "others")
    if estimate.limit_bytes is not None:
        left = estimate.limit_bytes - estimate.peak_bytes
        yield BarPart("left of the limit", left, "room")


def _sum(estimate: MemoryEstimate) -> Markup:
    rows = peak_sum(estimate)
    figures = peak_figures(rows)
    cells = [(row.sign, figure, row.words) for row, figure in zip(rows, figures, strict=True)]
    return table_markup(Table(("", "MiB", ""), cells))


def _layers(estimate: MemoryEstimate) -> Iterator[Markup]:
    if estimate.layers:
        few, every = (table_cells(estimate.layers, is_whole=whole) for whole in (False, True))
        title = "the layers at the peak, MiB (kept: activations for backward)"
        yield table_markup(few._replace(title=title))
        if len(every.rows) > len(few.rows):
            yield folded("every layer", table_markup(every))


def _limit(estimate: MemoryEstimate, budget: Budget) -> Iterator[Line]:
    backend = "tensorflow" if estimate.setting is None else estimate.setting.backend
    peak, limit = estimate.peak_bytes, estimate.limit_bytes
    if limit is not None:
        lines = limit_lines(peak, limit, budget, fits=estimate.fits, backend=backend)
        yield from (Line(text) for text in (*lines, ""))
    yield from (Line(text) for text in card_lines(peak, budget, backend=backend))


def _advice(found: tuple[Advice, ...]) -> Iterator[Markup]:
    if not found:
        return
    yield paragraph("what would save memory, each traced anew", "bold")
    words = {None: "", True: ", fits", False: ", does not fit"}
    for each in found:
        peak = f"{sized(each.peak_bytes)} at the peak{words[each.fits]}"
        text = f"{each.change}: saves {sized(each.saved_bytes)} ({peak})"
        yield tag("div", paragraph(text), to_paste(each.how))
