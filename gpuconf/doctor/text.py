"""A doctor's report as lines: what is wrong first, then the cards, then a count.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from gpuconf.doctor.finding import Finding
from gpuconf.doctor.report import BAR_PARTS, CardReport, MemoryBar, Report
from gpuconf.reporting.lines import Line, broken, line_of
from gpuconf.units import MIB

Piece = tuple[str, str]  # text, and a style or ""

_STYLES = {"fail": "bold red", "warn": "yellow", "crash": "magenta", "ok": "green", "skip": "dim"}
_INDENT = 7
_PART_STYLES = ("red", "yellow", "green", "dim")
_GLYPHS = "█▓▒░"
_ASCII_GLYPHS = "#+=."
_LONGEST_NAME, _LONGEST_NAME_IN_80 = 28, 18
_NUMBER_WIDTH = 8
_SHORTEST_BAR, _LONGEST_BAR = 12, 40
_MOST_HOLDERS = 4


class TextLayout(NamedTuple):
    """How to write: in how many columns (None for a file or pipe), and whether all or problems."""

    width: int | None = None
    verbose: bool = False
    ascii: bool = False


def lines_of(report: Report, shape: TextLayout = TextLayout()) -> list[Line]:  # noqa: B008  # immutable
    """The whole report."""
    blocks = [_findings(report, shape), _cards(report, shape), _ending(report, shape)]
    lines: list[Line] = []
    for block in (list(block) for block in blocks):
        if lines and block:
            lines.append(Line())
        lines += block
    return list(broken(lines, shape.width))


def _findings(report: Report, shape: TextLayout) -> Iterator[Line]:
    driver = next((each for each in report.findings if each.id == "driver.present"), None)
    if driver is not None and driver.status == "skip":
        yield Line(driver.summary, "bold", 0)
    if not report.problems:
        yield Line(report.all_clear, "green", 0)
        if shape.verbose:
            yield Line()
    for finding in report.problems:
        yield from _finding(finding, shape)
    if shape.verbose:
        for finding in report.findings:
            if finding.status in ("ok", "skip"):
                yield from _finding(finding, shape)


def _finding(finding: Finding, shape: TextLayout) -> Iterator[Line]:
    label = f"{finding.status.upper():<{_INDENT}}"
    pieces = (label, _STYLES[finding.status]), (finding.id, "bold"), (f"  {finding.summary}", "")
    yield line_of(*pieces, hang=_INDENT)
    for detail in filter(None, finding.detail):
        if shape.verbose or _is_for_all(detail, finding):
            yield Line(" " * _INDENT + detail, "dim", _INDENT)
    label = "fix: "
    for text in (finding.fix or "").splitlines():  # never broken: it is pasted
        yield line_of((f"{' ' * _INDENT}{label}", "dim"), (text, "cyan"))
        label = " " * len(label)


def _is_for_all(detail: str, finding: Finding) -> bool:
    """Whether a detail is shown without -v: where a check broke, the line of source, the hint."""
    is_source = finding.id.startswith("source.") and detail.startswith("    ")
    return finding.status == "crash" or is_source or detail.startswith("hint: ")


def _cards(report: Report, shape: TextLayout) -> Iterator[Line]:
    rows = list(_rows(report.cards, shape))
    if not rows:
        return
    name_width = max(len(row.name) for row in rows)
    bar_width = min((shape.width or 120) - 5 - name_width - 2 - 5 * _NUMBER_WIDTH, _LONGEST_BAR)
    is_tall = bar_width < _SHORTEST_BAR
    numbers = "".join(f"{title.upper():>{_NUMBER_WIDTH}}" for title in ("total", *BAR_PARTS))
    head = f"{'GPU':<5}{'CARD':<{name_width}}  {'MEMORY, MiB':<{max(bar_width, 0)}}{numbers}"
    yield Line("GPU  CARD" if is_tall else head, "bold", None)
    for row in rows:
        if is_tall:
            yield from _tall_row(row, shape)
        else:
            yield _row(row, name_width, bar_width, shape)
        yield from _below(row.card)
    if any(row.card.bar for row in rows):
        yield from _legend(report, shape)


class _Row(NamedTuple):
    label: str
    name: str
    card: CardReport


def _rows(cards: Iterable[CardReport], shape: TextLayout) -> Iterator[_Row]:
    """A row for each card, and below it one for each of its MIG instances."""
    is_narrow = shape.width is not None and shape.width < 100
    longest = _LONGEST_NAME_IN_80 if is_narrow else _LONGEST_NAME
    for card in cards:
        name = card.name or "(no name)"
        yield _Row(str(card.index), _short(name.removeprefix("NVIDIA "), longest), card)
        for place, instance in enumerate(card.instances):
            part = (instance.name or "(no name)").removeprefix(name).strip()
            yield _Row(f"{card.index}.{place}", _short(part, longest), instance)


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _row(row: _Row, name_width: int, bar_width: int, shape: TextLayout) -> Line:
    begin, bar = f"{row.label:<5}{row.name:<{name_width}}  ", row.card.bar
    if bar is None:
        return Line(begin.rstrip(), hang=None)
    numbers = "".join(f"{figure:>{_NUMBER_WIDTH}}" for figure in _figures(bar))
    return line_of((begin, ""), *_bar(bar, bar_width, shape), (numbers, ""))


def _tall_row(row: _Row, shape: TextLayout) -> Iterator[Line]:
    """Where a row does not fit: name, bar and figures below each other."""
    yield Line(f"{row.label:<5}{row.name}", hang=5)
    bar = row.card.bar
    if bar is not None:
        yield line_of(("     ", ""), *_bar(bar, max((shape.width or 0) - 5, _SHORTEST_BAR), shape))
        total, *figures = _figures(bar)
        parts = (f"{name} {size}" for name, size in zip(BAR_PARTS, figures, strict=True))
        yield Line(f"     {total} MiB: {', '.join(parts)}", hang=5)


def _figures(bar: MemoryBar) -> list[int]:
    """The card and its parts in whole MiB, which add up."""
    ends = [end // MIB for end in accumulate(bar, initial=0)]
    return [ends[-1], *(end - begin for begin, end in pairwise(ends))]


def _below(card: CardReport) -> Iterator[Line]:
    remarks = ["; ".join(card.remarks)] if card.remarks else []
    yield from (Line(f"     {text}", "dim", 5) for text in (*remarks, *_holders(card)))


def _bar(bar: MemoryBar, width: int, shape: TextLayout) -> list[Piece]:
    glyphs = _ASCII_GLYPHS if shape.ascii else _GLYPHS
    lengths = _lengths(bar, width)
    return [
        (glyph * length, style)
        for glyph, length, style in zip(glyphs, lengths, _PART_STYLES, strict=True)
        if length
    ]


def _lengths(bar: MemoryBar, width: int) -> list[int]:
    """``width`` shared out; a part that is more than nothing to speak of gets one at least."""
    total = max(bar.total_bytes, 1)
    lengths = [max(round(size / total * width), int(size * 100 >= total)) for size in bar]
    while sum(lengths) != width:
        largest = max(range(len(lengths)), key=lambda place: lengths[place])
        lengths[largest] += 1 if sum(lengths) < width else -1
    return lengths


def _holders(card: CardReport) -> Iterator[str]:
    holders = card.holders or ()
    for holder in holders[:_MOST_HOLDERS]:
        yield str(holder)
    if len(holders) > _MOST_HOLDERS:
        yield f"and {len(holders) - _MOST_HOLDERS} more processes"


def _legend(report: Report, shape: TextLayout) -> Iterator[Line]:
    glyphs = _ASCII_GLYPHS if shape.ascii else _GLYPHS
    meanings = MemoryBar.meanings(report.profile.name if report.profile else "the profile")
    pieces: list[Piece] = []
    used = 0
    for glyph, meaning, style in zip(glyphs, meanings, _PART_STYLES, strict=True):
        if pieces and shape.width is not None and used + len(meaning) + 4 > shape.width:
            yield line_of(*pieces)
            pieces, used = [], 0
        entry = [(f"{'  ' if pieces else '     '}{glyph}", style), (f" {meaning}", "dim")]
        used += sum(len(text) for text, _ in entry)
        pieces += entry
    yield line_of(*pieces)


def _ending(report: Report, shape: TextLayout) -> Iterator[Line]:
    counts = report.counts
    counted = [f"{counts[status]} {word}" for status, word in
            (("fail", "failed"), ("warn", "warned"), ("crash", "crashed"), ("ok", "fine"),
             ("skip", "skipped")) if counts[status] or status == "ok"]  # fmt: skip
    more = "" if shape.verbose else "; -v shows all, with details"
    profile = ""
    if report.profile is not None:
        profile = f"profile {report.profile.name} ({report.profile.because}); "
    if not shape.verbose:  # otherwise it stands above, as a finding
        yield from (Line(text, "dim", 0) for text in _done(report))
    yield Line(f"{profile}{', '.join(counted)}{more}", "dim", 0)


def _done(report: Report) -> Iterator[str]:
    """What was done because it was asked for, and found nothing."""
    for finding in report.findings:
        if finding.id == "source.clean":
            yield finding.summary
        elif finding.id == "live.start" and finding.status == "skip":
            yield f"probe: {finding.summary}"
    yield from _probed(report)


def _probed(report: Report) -> Iterator[str]:
    """That the probe came through all its steps, on which cards, and in what time."""
    runs = report.probe or ()
    is_well = not any(each.id.startswith("live.") for each in report.problems)
    steps = [step for run in runs for step in run.steps if step.step != "start"]
    if len(runs) != 1 or not steps or not is_well or not all(step.has_passed for step in steps):
        return
    *names, last = dict.fromkeys(step.step for step in steps)
    cards = ", ".join(card.label.partition(" (")[0] for card in runs[0].cards)
    seconds = sum(step.seconds or 0.0 for step in runs[0].steps)
    yield f"probe: {', '.join(names)} and {last} on {cards}: fine, {seconds:.1f} s"
