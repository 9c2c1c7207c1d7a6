"""Accuracy of ``gpuconf.estimate`` against the memory of real steps: one row per case, a summary.

Each case is measured in a fresh process, two steps each, on stages: TensorFlow's own allocator on
the CPU, and the simulated card with the kernel bridge (``estimate/stages.py``).  With ``--cache
FILE`` each measurement is stored, and an interrupted run continues.  ``estimate/estimate_cases.py``
describes the sets of cases.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.estimate.accuracy_table import (
    Row,
    head,
    line,
    machine_facts,
    summaries,
    summary_lines,
    trouble_lines,
)
from benchmarks.estimate.estimate_cases import Case, choose_cases, only_models, unseen_cases
from benchmarks.estimate.estimates import estimate_group, groups
from benchmarks.estimate.measured_peaks import TIMEOUT_S, Measurements
from benchmarks.estimate.stages import Stage, ample_cpu_stage, card_stage, cpu_stage, xla_stage

STAGES: dict[str, tuple[str, ...]] = {
    "cpu": ("cpu",),
    "cpu-ample": ("cpu-ample",),
    "card": ("card",),
    "card-xla": ("card-xla",),
    "both": ("cpu", "card"),
    "all": ("cpu", "cpu-ample", "card"),
}


def rows_of(
    cases: Sequence[Case],
    stages: Sequence[Stage],
    kept: Measurements,
    *,
    measure_only: bool,
    runs: int,
    timeout_s: float,
) -> Iterator[Row]:
    """Measure and estimate, one case after another."""
    for group in groups(cases):
        jit = any(each.name == "card-xla" for each in stages)
        said = {} if measure_only else estimate_group(group, os.environ, jit=jit)
        for case in group:
            found = {
                each.name: kept.measure_often(case, each, runs=runs, timeout_s=timeout_s)
                for each in stages
            }
            yield Row(case, found, said.get(case.name))


def make_stage(name: str, stack: ExitStack) -> Stage:
    """The stage with this name; a card exists as long as ``stack``."""
    if name == "card-xla":
        return stack.enter_context(xla_stage(os.environ))
    if name == "card":
        return stack.enter_context(card_stage(os.environ))
    return cpu_stage(os.environ) if name == "cpu" else ample_cpu_stage(os.environ)


def write_json(file: Path, rows: Sequence[Row], stages: Sequence[str]) -> None:
    """Write everything that is printed, as data."""
    made = [summary._asdict() for stage in stages for summary in summaries(rows, stage)]
    told = {"machine": machine_facts(), "summaries": made, "rows": [row.as_dict() for row in rows]}
    file.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="cases", action="store_const", const="quick")
    size.add_argument("--full", dest="cases", action="store_const", const="full")
    size.add_argument(
        "--unseen", dest="cases", metavar="HALF", choices=("learn", "held"), help="learn or held"
    )
    parser.set_defaults(cases="default")
    parser.add_argument("--models", metavar="A,B", default="", help="whose name has one of these")
    parser.add_argument("--stage", choices=STAGES, default="both", help="default: both")
    parser.add_argument("--runs", metavar="N", type=int, default=1, help="of a case; the median")
    parser.add_argument("--measure-only", action="store_true", help="ask gpuconf nothing")
    parser.add_argument("--cache", metavar="FILE", type=Path, help="keep measurements in FILE")
    parser.add_argument("--again", action="store_true", help="repeat what FILE has as an error")
    parser.add_argument("--timeout", metavar="S", type=float, default=TIMEOUT_S, help="a case's")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything there too")
    parser.add_argument("--list", action="store_true", help="print the names of the cases only")
    return parser.parse_args(arguments)


def main() -> int:
    """Measure, estimate, print; return 1 if a case could not be measured or estimated."""
    options = parse()
    is_unseen = options.cases in ("learn", "held")
    chosen = unseen_cases(options.cases) if is_unseen else choose_cases(options.cases)
    cases = only_models(chosen, filter(None, options.models.split(",")))
    if options.list:
        print(*(case.name for case in cases), sep="\n")
        return 0
    names = STAGES[options.stage]
    print(*machine_facts(), "", head(names), sep="\n", flush=True)
    rows = []
    with ExitStack() as stack:
        stages = [make_stage(name, stack) for name in names]
        kept = Measurements(options.cache, again=options.again)
        found = rows_of(
            cases,
            stages,
            kept,
            measure_only=options.measure_only,
            runs=options.runs,
            timeout_s=options.timeout,
        )
        for row in found:
            print(line(row, names), flush=True)
            rows.append(row)
    made = [summary for name in names for summary in summaries(rows, name)]
    print("", *(summary_lines(made) if made else ()), *trouble_lines(rows), sep="\n")
    if options.json is not None:
        write_json(options.json, rows, names)
    return 1 if any(row.troubles for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
