"""Accuracy of ``gpuconf.estimate`` against the memory of real steps: one row per case, a summary.

Each case is measured in a fresh process, two steps each, on stages: TensorFlow's own allocator on
the CPU, and the simulated card with the kernel bridge (``benchmarks/stages.py``).  With ``--cache
FILE`` each measurement is stored, and an interrupted run continues.  ``cases.py`` describes their
sets.  Exit code 1 if a case could not be measured or estimated.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.estimate.accuracy_table import (
    Row,
    head,
    line,
    summaries,
    summary_lines,
    trouble_lines,
)
from benchmarks.estimate.cases import Case, choose_cases, only_models, unseen_cases
from benchmarks.estimate.estimates import estimate_group, groups
from benchmarks.estimate.measurements import TIMEOUT_S, Measurements
from benchmarks.machine import machine
from benchmarks.stages import Stage

PART = "peaks"
STAGES: dict[str, tuple[str, ...]] = {
    "cpu": ("cpu",),
    "cpu-ample": ("cpu-ample",),
    "card": ("card",),
    "card-xla": ("card-xla",),
    "both": ("cpu", "card"),
    "all": ("cpu", "cpu-ample", "card"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part alone."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="cases", action="store_const", const="quick")
    size.add_argument("--full", dest="cases", action="store_const", const="full")
    size.add_argument(
        "--unseen", dest="cases", metavar="HALF", choices=("learn", "held"), help="learn or held"
    )
    parser.set_defaults(cases="default")
    parser.add_argument("--stage", choices=STAGES, default="both", help="default: both")
    parser.add_argument("--runs", metavar="N", type=int, default=1, help="of a case; the median")
    parser.add_argument("--measure-only", action="store_true", help="do not estimate")
    parser.add_argument("--again", action="store_true", help="repeat what FILE has as an error")
    parser.add_argument("--timeout", metavar="S", type=float, default=TIMEOUT_S, help="a case's")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything there too")
    parser.add_argument("--list", action="store_true", help="print the names of the cases only")


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """The cases that the options choose."""
    is_unseen = options.cases in ("learn", "held")
    chosen = unseen_cases(options.cases) if is_unseen else choose_cases(options.cases)
    return only_models(chosen, options.words)


def rows_of(options: argparse.Namespace, stages: Sequence[Stage]) -> Iterator[Row]:
    """Measure and estimate, one case after another."""
    kept = Measurements(options.cache, again=options.again)
    jit = any(each.name == "card-xla" for each in stages)
    for group in groups(chosen_cases(options)):
        estimates = {} if options.measure_only else estimate_group(group, os.environ, jit=jit)
        for case in group:
            found = {
                each.name: kept.measure_often(
                    case, each, runs=options.runs, timeout_s=options.timeout
                )
                for each in stages
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
    if options.json is not None:
        found = {
            "machine": machine("tensorflow", "keras", "gpuconf"),
            "rows": [row.as_dict() for row in rows],
            "summaries": [summary._asdict() for summary in made],
        }
        text = json.dumps(found, indent=1, ensure_ascii=False)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    return 1 if any(row.troubles for row in rows) else 0
