"""A doctor's report as lines: problems first, then the GPUs, then a count.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuconf.basics.terminal import for_ipython, to_paste
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.report import BAR_PARTS, CardReport, MemoryBar, Report
from gpuconf.planner.plan import FRAMEWORKS
from gpuconf.support.reporting.lines import Line, broken, line_of
from gpuconf.support.reporting.memory_bars import BarLayout, BarRow, bar_lines

_STYLES = {"fail": "bold red", "warn": "yellow", "crash": "magenta", "ok": "green", "skip": "dim"}
# Shown even if there are no problems: what was checked.
_SAID = ("packages.frameworks", "source.clean")
_INDENT = 7
_MOST_HOLDERS = 4


class TextLayout(NamedTuple):
    """The layout: width in columns (None for a file or pipe), whether to show all findings, and
    whether a fix is pasted into an IPython cell.
    """

    width: int | None = None
    verbose: bool = False
    ascii: bool = False
    ipython: bool = False


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
        yield from finding_lines(finding, shape)
    if shape.verbose:
        for finding in report.findings:
            if finding.status in ("ok", "skip"):
                yield from finding_lines(finding, shape)


def finding_lines(finding: Finding, shape: TextLayout) -> Iterator[Line]:
    """A finding, and the command that fixes it."""
    label = f"{finding.status.upper():<{_INDENT}}"
    pieces = (label, _STYLES[finding.status]), (finding.id, "bold"), (f"  {finding.summary}", "")
    yield line_of(*pieces, hang=_INDENT)
    for detail in filter(None, finding.detail):
        if shape.verbose or _is_for_all(detail, finding):
            yield Line(" " * _INDENT + detail, "dim", _INDENT)
    label = "fix: "
    fix = finding.fix or ""
    fix = for_ipython(fix) if shape.ipython else to_paste(fix)
    for text in fix.splitlines():  # never wrapped: pasted
        yield line_of((f"{' ' * _INDENT}{label}", "dim"), (text, "cyan"))
        label = " " * len(label)


def _is_for_all(detail: str, finding: Finding) -> bool:
    """Whether a detail is shown without -v: a crash's location, a source line, a hint."""
    is_source = finding.id.startswith("source.") and detail.startswith("    ")
    return finding.status == "crash" or is_source or detail.startswith("hint: ")


def _cards(report: Report, shape: TextLayout) -> Iterator[Line]:
    meanings = MemoryBar.meanings(report.profile.name if report.profile else "the profile")
    layout = BarLayout(shape.width, shape.ascii)
    return bar_lines(list(_rows(report.cards)), BAR_PARTS, meanings, layout)


def _rows(cards: Iterable[CardReport]) -> Iterator[BarRow]:
    """A row for each GPU, followed by one for each of its MIG instances."""
    for card in cards:
        name = card.name or "(no name)"
        yield _row(str(card.index), name.removeprefix("NVIDIA "), card)
        for place, instance in enumerate(card.instances):
            part = (instance.name or "(no name)").removeprefix(name).strip()
            yield _row(f"{card.index}.{place}", part, instance)


def _row(label: str, name: str, card: CardReport) -> BarRow:
    remarks = ["; ".join(card.remarks)] if card.remarks else []
    return BarRow(label, name, card.bar, (*remarks, *_holders(card)))


def _holders(card: CardReport) -> Iterator[str]:
    holders = card.holders or ()
    for holder in holders[:_MOST_HOLDERS]:
        yield str(holder)
    if len(holders) > _MOST_HOLDERS:
        yield f"and {len(holders) - _MOST_HOLDERS} more processes"


def _ending(report: Report, shape: TextLayout) -> Iterator[Line]:
    counts = report.counts
    counted = [f"{counts[status]} {word}" for status, word in
            (("fail", "failed"), ("warn", "warned"), ("crash", "crashed"), ("ok", "fine"),
             ("skip", "skipped")) if counts[status] or status == "ok"]  # fmt: skip
    more = "" if shape.verbose else "; -v shows all, with details"
    profile = ""
    if report.profile is not None:
        profile = f"profile {report.profile.name} ({report.profile.because}); "
    if not shape.verbose:  # otherwise already shown as a finding
        yield from (Line(text, "dim", 0) for text in _done(report))
    yield Line(f"{profile}{', '.join(counted)}{more}", "dim", 0)


def _done(report: Report) -> Iterator[str]:
    """Summaries of requested work that found no problem."""
    for finding in report.findings:
        if finding.id in _SAID and finding.status == "ok":
            yield finding.summary
        elif re.fullmatch(r"live\.(.*\.)?start", finding.id) and finding.status == "skip":
            yield f"probe: {finding.summary}"
    yield from _probed(report)


def _probed(report: Report) -> Iterator[str]:
    """The frameworks whose probe passed all steps, on which GPUs, and in how much time."""
    if any(each.id.startswith("live.") for each in report.problems):
        return
    packages = [run.framework for run in report.probe or ()]
    for run in report.probe or ():
        steps = [step for step in run.steps if step.step != "start"]
        is_well = bool(steps) and all(step.has_passed for step in steps)
        if not is_well or packages.count(run.framework) > 1:
            continue
        *names, last = dict.fromkeys(step.step for step in steps)
        what = f"{', '.join(names)} and {last}" if names else last
        of = "" if run.framework == "tensorflow" else f" of {FRAMEWORKS[run.framework]}"
        cards = ", ".join(card.label.partition(" (")[0] for card in run.cards)
        seconds = sum(step.seconds or 0.0 for step in run.steps)
        yield f"probe: {what}{of} on {cards}: fine, {seconds:.1f} s"
