"""Accuracy of ``gpuconf.estimate`` against the memory of real steps: one row per case, a summary.

Each case is measured in a fresh process that builds the model and makes two steps on the simulated
GPU.  TensorFlow's own GPU kernels allocate there, and none is launched (``benchmarks/stages.py``).
With ``--cache FILE`` each measurement is stored, and an interrupted run continues.  Exit code 1 if
a case could not be measured or estimated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence

from benchmarks.estimate.accuracy_table import (
    Row,
    head,
    line,
    summaries,
    summary_lines,
    trouble_lines,
)
from benchmarks.estimate.cases import Case, only_models, tuned_cases, unseen_cases
from benchmarks.estimate.estimates import estimate_group, groups
from benchmarks.estimate.measurements import TIMEOUT_S, Measurements
from benchmarks.stages import Stage

PART = "peaks"
STAGES: dict[str, tuple[str, ...]] = {
    "card": ("card",),
    "card-xla": ("card-xla",),
    "both": ("card", "card-xla"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part alone."""
    parser.add_argument(
        "--unseen", metavar="HALF", choices=("learn", "held"), help="unseen models: learn or held"
    )
    parser.add_argument("--stage", choices=STAGES, default="card", help="default: card")
    parser.add_argument("--timeout", metavar="S", type=float, default=TIMEOUT_S, help="a case's")


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """The cases that the options choose."""
    chosen = unseen_cases(options.unseen) if options.unseen else tuned_cases()
    return only_models(chosen, options.words)


def rows_of(options: argparse.Namespace, stages: Sequence[Stage]) -> Iterator[Row]:
    """Measure and estimate, one case after another."""
    kept = Measurements(options.cache)
    jit = any(each.name == "card-xla" for each in stages)
    for group in groups(chosen_cases(options)):
        estimates = estimate_group(group, os.environ, jit=jit)
        for case in group:
            found = {
                each.name: kept.measure(case, each, timeout_s=options.timeout) for each in stages
            }
            yield Row(case, found, estimates.get(case.name))


def run(options: argparse.Namespace, stages: Sequence[Stage]) -> int:
    """Measure, estimate, print."""
    names = [stage.name for stage in stages]
    print(head(names), flush=True)
    rows = []
    for row in rows_of(options, stages):
        print(line(row, names), flush=True)
        rows.append(row)
    made = [summary for name in names for summary in summaries(rows, name)]
    print("", *(summary_lines(made) if made else ()), *trouble_lines(rows), sep="\n")
    return 1 if any(row.troubles for row in rows) else 0
