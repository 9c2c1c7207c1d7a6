"""Format a MemoryEstimate as lines for a terminal of any width (``gpuconf estimate``); pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuconf.basics.units import MIB, mib_figure, sized
from gpuconf.commands.estimate.budget import Budget, card_lines, limit_lines
from gpuconf.commands.estimate.memory_estimate import (
    Advice,
    LayerRow,
    MemoryEstimate,
    Peak,
    Phase,
)
from gpuconf.commands.estimate.peak_sum import peak_figures, peak_sum
from gpuconf.commands.estimate.step import (
    BACKWARD,
    FORWARD,
    GPU,
    SIMULATED_CARD,
    TRACED,
    UPDATE,
    WHOLE,
)
from gpuconf.support.batch_search import MOST_BATCH
from gpuconf.support.reporting.lines import Line, broken
from gpuconf.support.reporting.picture import shortened
from gpuconf.support.reporting.text import text_of

_TIERS = {
    TRACED: "compiled, nothing was run",
    SIMULATED_CARD: "one step run without its kernels, on a simulated GPU",
    GPU: "one step run on this machine's GPU, including its workspaces",
}
PARTS = {
    FORWARD: "the forward pass",
    BACKWARD: "the backward pass",
    UPDATE: "the optimizer's update",
    WHOLE: "the step, which XLA compiles as a whole",
}
_MOST_ROWS = 10
_NARROWEST_NAME = 14
_TABLE_COLUMNS = ("weights", "gradients", "optimizer", "kept", "other", "sum")
_SHORT = ("weights", "grads", "optim", "kept", "other", "sum")


@text_of.register
def _text(estimate: MemoryEstimate) -> str:
    return "\n".join(line.text for line in report(estimate))


def report(
    estimate: MemoryEstimate,
    *,
    budget: Budget | None = None,
    width: int | None = None,
    verbose: bool = False,
) -> Iterator[Line]:
    """The lines, starting with the answer; wrapped to ``width`` columns if given."""
    return broken(_lines(estimate, budget or Budget(), width, verbose=verbose), width)


def _lines(
    estimate: MemoryEstimate, budget: Budget, width: int | None, *, verbose: bool
) -> Iterator[Line]:
    yield Line(headline(estimate), "bold red" if estimate.fits is False else "bold green")
    yield Line(modeled(estimate), "dim")
    yield from _peak(estimate)
    if estimate.phases:
        yield from _headed("the peak at batch sizes near this one: resident memory plus")
        yield from phase_lines(estimate)
    yield from _layers(estimate, width, verbose=verbose)
    yield from _budget(estimate, budget)
    if estimate.advice:
        yield from _headed("changes that save memory, each tried")
        for advice in estimate.advice:
            yield from _advice(advice)
    if estimate.notes:
        yield from _headed("notes")
        yield from (Line(f"  {note}", hang=4) for note in estimate.notes)


def _budget(estimate: MemoryEstimate, budget: Budget) -> Iterator[Line]:
    peak, limit = estimate.peak_bytes, estimate.limit_bytes
    backend = "tensorflow" if estimate.setting is None else estimate.setting.backend
    if limit is not None:
        yield from _headed("the limit")
        lines = limit_lines(peak, limit, budget, fits=estimate.fits, backend=backend)
        yield from (Line(f"  {text}", hang=17) for text in lines)
    yield from _headed("the GPU")
    yield from (Line(f"  {text}", hang=17) for text in card_lines(peak, budget, backend=backend))


def _headed(heading: str) -> Iterator[Line]:
    yield Line()
    yield Line(heading, "bold")


def headline(estimate: MemoryEstimate) -> str:
    """The answer: the memory of this batch, whether it fits, and the batch size that would fit."""
    text = (
        f"batch {estimate.batch_size}: {sized(estimate.peak_bytes)} at the peak, "
        f"{sized(estimate.resident_bytes)} between steps"
    )
    largest, limit = estimate.largest_batch, estimate.limit_bytes
    if largest is None or limit is None:
        return text
    if largest == 0:
        alone = ", nor would a single sample" if estimate.phases else ""  # none: no other batch ran
        return f"{text}: does not fit in {sized(limit)}{alone}"
    if not estimate.fits:
        return f"{text}: does not fit in {sized(limit)}; the largest batch that does is {largest}"
    more = " or more" if largest >= MOST_BATCH else ""
    return f"{text}; the largest batch that fits in {sized(limit)} is {largest}{more}"


def modeled(estimate: MemoryEstimate) -> str:
    """How the number was computed, and for which kind of step."""
    tier, setting = _TIERS.get(estimate.tier, estimate.tier), estimate.setting
    if setting is None:
        return tier
    parts = [part for part in (setting.optimizer, setting.loss) if part is not None]
    if setting.training:
        what = f"training with {' and '.join(parts)}" if parts else "training"
    else:
        what = "inference"
    xla = "compiled by XLA" if setting.jit else "without XLA"
    return f"{tier}: {what}, {setting.precision}, {xla}; {setting.framework}"


def _peak(estimate: MemoryEstimate) -> Iterator[Line]:
    yield from _headed("the peak")
    place = place_in_words(estimate.peak)
    if estimate.building_bytes:
        place = f"while the model is built; a step peaks {place}"
    yield Line(f"  {place}", hang=4)
    yield Line(f"  operation {estimate.peak.operation}", "dim", 4)
    rows = peak_sum(estimate)
    figures = peak_figures(rows)
    widest = max(map(len, figures))
    for row, figure in zip(rows, figures, strict=True):
        size = figure.rjust(widest)
        if figure == "0.0" and row.sign != "=":
            continue  # a few bytes would look like an empty row
        style = "bold" if row.sign == "=" else ""
        yield Line(f"  {row.sign} {size} MiB  {row.words}", style, widest + 10)


def place_in_words(place: Peak | Phase) -> str:
    """The part of the step, and the layer, at a peak or in a phase."""
    part = PARTS.get(place.part, place.part)
    return f"in {part}, layer {place.layer}" if place.layer else f"in {part}"


def phase_lines(estimate: MemoryEstimate) -> Iterator[Line]:
    """The formula for the peak at other batch sizes, and what it gives for this one."""
    (phase,) = estimate.phases
    base, slope = _formula(phase)
    span = f"(from batches {phase.first_batch} and {2 * phase.first_batch})"
    yield Line(f"  {base} MiB + {slope} MiB × batch  {span}", hang=4)
    batch = estimate.batch_size
    asked = estimate.resident_bytes + phase.base_bytes + phase.per_sample_bytes * batch
    size = estimate.peak_bytes - estimate.building_bytes - estimate.first_step_bytes
    yield Line(
        f"  here {mib_figure(estimate.resident_bytes)} {_signed(base)} + {slope} × {batch} = "
        f"{mib_figure(asked)} MiB requested; {mib_figure(size)} MiB in chunks",
        hang=4,
    )


def _formula(phase: Phase) -> tuple[str, str]:
    per_sample = phase.per_sample_bytes / MIB
    return mib_figure(phase.base_bytes), _three_digits(per_sample)


def _signed(figure: str) -> str:
    return f"- {figure[1:]}" if figure.startswith("-") else f"+ {figure}"


def _layers(estimate: MemoryEstimate, width: int | None, *, verbose: bool) -> Iterator[Line]:
    if not estimate.layers:
        return
    yield from _headed("the layers at the peak (kept: activations for backward)")
    rows = table_rows(estimate.layers, is_whole=verbose)
    room = None if width is None else width - 2
    heading, *lines = table_lines(rows, room)
    yield Line(f"  {heading}", "dim", None)
    for text in lines[:-1]:
        yield Line(f"  {text}", hang=None)
    yield Line(f"  {lines[-1]}", "bold", None)


def _three_digits(number: float) -> str:
    """Format with three significant digits: 0.0012, 1.43, 23.5 or 2610."""
    if number < 0.001:
        return "0"
    return f"{number:.3g}" if number < 100 else f"{number:.0f}"


def _advice(advice: Advice) -> Iterator[Line]:
    verdict = {None: "", True: ", fits", False: ", does not fit"}[advice.fits]
    peak = f"{sized(advice.peak_bytes)} at the peak{verdict}"
    yield Line(f"  {advice.change}: saves {sized(advice.saved_bytes)} ({peak})", hang=4)
    for text in advice.how.splitlines():
        yield Line(f"      {text}", "cyan", None)


class _TableRow(NamedTuple):
    """A row's name and the bytes in its columns."""

    name: str
    sizes: tuple[int, ...]


def table_rows(rows: Sequence[LayerRow], *, is_whole: bool) -> list[_TableRow]:
    """The largest layers, the sum of the others, memory that belongs to no layer, and the total."""
    layers = [row for row in rows if row.layer is not None]
    shown = layers if is_whole or len(layers) <= _MOST_ROWS + 1 else layers[:_MOST_ROWS]
    rest = layers[len(shown) :]
    found = [_TableRow(row.layer or "", _sizes(row)) for row in shown]
    if rest:
        found.append(_TableRow(f"{len(rest)} smaller layers", _added(map(_sizes, rest))))
    unattributed = [_sizes(row) for row in rows if row.layer is None]
    if unattributed:
        found.append(_TableRow("unattributed/workspace", _added(unattributed)))
    return [*found, _TableRow("total", _added(map(_sizes, rows)))]


def _sizes(row: LayerRow) -> tuple[int, ...]:
    return (
        row.parameters_bytes,
        row.gradients_bytes,
        row.optimizer_state_bytes,
        row.activations_bytes,
        row.temporaries_bytes + row.other_bytes,
        row.total_bytes,
    )


def _added(rows: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True))) or (0,) * len(_TABLE_COLUMNS)


def _used_columns(rows: Sequence[_TableRow]) -> list[int]:
    return [place for place in range(len(_TABLE_COLUMNS)) if any(row.sizes[place] for row in rows)]


def table_lines(rows: Sequence[_TableRow], width: int | None) -> Iterator[str]:
    """The table's lines, starting with the heading, without empty columns.

    On a narrow terminal, the headings are shortened first, then the layer names.  Names are cut at
    the start because their ends differ.
    """
    used = _used_columns(rows)
    cells = [[_figure(row.sizes[place]) for place in used] for row in rows]
    longest = max(len(row.name) for row in rows)
    for headings, gap in ((_TABLE_COLUMNS, "  "), (_SHORT, "  "), (_SHORT, " ")):
        heads = [headings[place] for place in used]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        left = longest if width is None else width - sum(len(gap) + each for each in widths)
        if left >= min(longest, _NARROWEST_NAME + 8):
            break
    left = min(longest, max(left, _NARROWEST_NAME))
    for name, row in zip(("MiB", *(row.name for row in rows)), (heads, *cells), strict=True):
        numbers = [cell.rjust(size) for cell, size in zip(row, widths, strict=True)]
        yield gap.join([shortened(name, left).ljust(left), *numbers])


def _figure(size_bytes: int) -> str:
    return mib_figure(size_bytes) if size_bytes else "-"
