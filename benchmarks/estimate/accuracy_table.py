"""Measurements and estimates side by side: one row per case, and a summary.  Text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.estimate.cases import Case
from benchmarks.estimate.estimates import Estimate
from benchmarks.estimate.measurements import Measured
from gpuconf.basics.units import MIB

# If an estimate is too low by more than this share, a program can run out of memory: it is roughly
# the margin that `largest_batch` leaves.
TOO_LOW = 0.08
_ERROR_WIDTH = 240


class Row(NamedTuple):
    """A case, with its measurement on each requested stage and its estimate."""

    case: Case
    measured: dict[str, Measured]
    estimate: Estimate | None = None

    def error(self, stage: str) -> float | None:
        """The relative error of the estimate on this stage: 0.1 means 10 % too high."""
        measured = self.measured.get(stage)
        if measured is None or not measured.peak_bytes:
            return None
        if self.estimate is None or self.estimate.peak_bytes is None:
            return None
        return self.estimate.peak_bytes / measured.peak_bytes - 1

    @property
    def troubles(self) -> list[str]:
        """The errors of the measurements and of the estimate."""
        found = [(stage, each.error) for stage, each in self.measured.items()]
        lines = [f"{self.case.name}: on the {stage}: {error}" for stage, error in found if error]
        if self.estimate is not None and self.estimate.error:
            lines.append(f"{self.case.name}: estimate: {self.estimate.error}")
        return lines


class Summary(NamedTuple):
    """The distribution of the errors of some cases on one stage, as fractions."""

    stage: str
    what: str
    cases: int
    median: float
    p95: float
    worst_over: float
    worst_under: float
    too_low: float
    worst_case: str


def head(stages: Sequence[str]) -> str:
    """The table's first line."""
    columns = "".join(f"{f'on {stage}':>15}" for stage in stages)
    errors = "".join(f"{f'of {stage}':>9}" for stage in stages)
    return f"{'MiB at the peak':62}{columns}{'estimated':>10}{errors}{'in':>8}"


def line(row: Row, stages: Sequence[str]) -> str:
    """A case on one line; a dash means unknown."""
    columns = "".join(f"{_mib(row.measured[stage].peak_bytes):>15}" for stage in stages)
    errors = "".join(f"{_percent(row.error(stage)):>9}" for stage in stages)
    found = row.estimate or Estimate("")
    took = "–" if found.took_s is None else f"{found.took_s:.1f} s"
    return f"{row.case.name:62}{columns}{_mib(found.peak_bytes):>10}{errors}{took:>8}"


def summaries(rows: Sequence[Row], stage: str) -> list[Summary]:
    """Summarize all cases of the stage, and each kind of case."""
    kinds: dict[str, Callable[[Case], bool]] = {
        "all": lambda _case: True,
        "training, float32": lambda case: case.is_training and case.policy == "float32",
        "training, mixed": lambda case: case.is_training and case.policy != "float32",
        "inference": lambda case: not case.is_training,
    }
    made = []
    for what, belongs in kinds.items():
        errors = {row.case.name: row.error(stage) for row in rows if belongs(row.case)}
        known = {name: error for name, error in errors.items() if error is not None}
        made += [_summary(stage, what, known)] if known else []
    return made


def _summary(stage: str, what: str, errors: dict[str, float]) -> Summary:
    sizes = sorted(abs(error) for error in errors.values())
    middle = len(sizes) // 2
    median = sizes[middle] if len(sizes) % 2 else (sizes[middle - 1] + sizes[middle]) / 2
    return Summary(
        stage,
        what,
        cases=len(sizes),
        median=median,
        p95=sizes[math.ceil(0.95 * len(sizes)) - 1],
        worst_over=max(0.0, *errors.values()),
        worst_under=min(0.0, *errors.values()),
        too_low=sum(error < -TOO_LOW for error in errors.values()) / len(errors),
        worst_case=max(errors, key=lambda name: abs(errors[name])),
    )


def summary_lines(made: Sequence[Summary]) -> list[str]:
    """The summaries as a table."""
    low = f"{TOO_LOW:.0%} low"
    titles = f"{'median':>9}{'p95':>9}{'over':>9}{'under':>9}{low:>9}"
    lines = [f"{'error of the estimate':30}{'cases':>6}{titles}  worst"]
    for each in made:
        shares = (each.median, each.p95, each.worst_over, each.worst_under, each.too_low)
        cells = "".join(f"{100 * share:8.1f}%" for share in shares)
        what = f"{each.stage}: {each.what}"
        lines.append(f"{what:30}{each.cases:6}{cells}  {each.worst_case}")
    return lines


def trouble_lines(rows: Sequence[Row]) -> list[str]:
    """The errors, one per line."""
    return [trouble[:_ERROR_WIDTH] for row in rows for trouble in row.troubles]


def _mib(size_bytes: int | None) -> str:
    return "–" if size_bytes is None else f"{size_bytes / MIB:.1f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:+.1f}%"
