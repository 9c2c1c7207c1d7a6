"""Estimates and peaks of a real GPU, op by op and compiled by XLA: a part of `make gpu`.

Prints a table and, with ``--write FILE``, writes it.  Each case runs two steps in a fresh process;
the peak is that of TensorFlow's allocator.  With XLA the first step's peak, in which XLA tries
algorithms, is shown in addition.  With ``--file FILE``, measurements are stored there, and not
repeated; on a machine without a GPU the table has those of the file.  ``--card simulated`` measures
on a simulated GPU.  Exit code 1 if a case could not be measured or estimated, 2 without a GPU and a
file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.estimate.accuracy_table import Row, summaries, summary_lines
from benchmarks.estimate.cases import Case, only_models, tuned_cases
from benchmarks.estimate.estimates import estimate_group
from benchmarks.estimate.measurements import Measurements
from benchmarks.machine import machine
from benchmarks.stages import Stage, open_stage
from gpuconf.basics.units import MIB
from gpuconf.machine.cards.nvml import read_inventory

MODELS = (
    "ResNet50,MobileNetV2,VGG16,EfficientNetB0,digits,U-Net 128,dense net,transformer LM,ViT,LSTM"
)
_TEXT = """\
# Estimates and a real GPU

What `gpuconf estimate` says about a step and what TensorFlow's allocator counted, in MiB, under a
limit of 11264 MiB. *Measured* is the peak of the whole process, including the workspaces that cuDNN
tried in the first step. Where XLA compiled the step, it is the peak of the second step.
[What to make of it](evidence/estimate.md).

"""
_HEAD = (
    "| case | measured | estimated | error |",
    "|---|---:|---:|---:|",
)


def rows_of(
    cases: Sequence[Case], stages: Sequence[Stage], kept: Measurements, *, may_measure: bool
) -> Iterator[tuple[str, Row]]:
    """Each case on each stage, by the stage's name; without a GPU only what the file has."""
    for case in cases:
        for stage in stages:
            if may_measure or kept.has(case, stage):
                jit = stage.name.endswith("-xla")
                estimate = estimate_group([case], os.environ, jit=jit)[case.name]
                measured = {stage.name: kept.measure(case, stage)}
                yield stage.name, Row(case, measured, estimate)


def _line(stage: str, row: Row) -> str:
    """A line of the table, or what failed."""
    is_compiled = stage.endswith("-xla")
    name = f"{row.case.name}{' / XLA' * is_compiled}"
    if row.troubles:
        return f"| {name} | {' '.join('; '.join(row.troubles).split())} | | |"
    found, estimate, error = row.measured[stage], row.estimate, row.error(stage)
    assert estimate is not None
    peak = _mib(found.peak_bytes)
    if is_compiled:
        peak += f" (first step {_mib(found.first_step_peak_bytes)})"
    return f"| {name} | {peak} | {_mib(estimate.peak_bytes)} | {100 * (error or 0):+.1f}% |"


def _mib(size: int | None) -> str:
    return f"{(size or 0) / MIB:.1f}"


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--card", choices=("real", "simulated"), default="real")
    parser.add_argument(
        "--models", metavar="A,B", help="whose name has one of these; without a GPU: all"
    )
    parser.add_argument(
        "--file", metavar="FILE", type=Path, help="store measurements there, and read them"
    )
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the table there too")
    return parser.parse_args()


def main() -> int:
    """Measure, estimate, print and write."""
    options = parse()
    may_measure = options.card == "simulated" or bool(read_inventory(processes=False).gpus)
    if not may_measure and options.file is None:
        print("no NVIDIA GPU was found on this machine", file=sys.stderr)
        print("hint: python -m benchmarks.estimate_on_gpu --card simulated", file=sys.stderr)
        return 2
    wanted = options.models or (MODELS if may_measure else "")
    cases = only_models(tuned_cases(), wanted.split(","))
    kept = Measurements(options.file)
    source = options.file if options.file is not None else f"{options.card} GPU"
    facts = f"{machine('tensorflow', 'keras', 'gpuconf')}; measured: {source}"
    print(facts, "", *_HEAD, sep="\n", flush=True)
    names = ("gpu", "gpu-xla") if options.card == "real" else ("card", "card-xla")
    rows: dict[str, list[Row]] = {name: [] for name in names}
    made = []
    with ExitStack() as stack:
        stages = [open_stage(name, os.environ, stack) for name in names]
        for stage, row in rows_of(cases, stages, kept, may_measure=may_measure):
            rows[stage].append(row)
            made.append(_line(stage, row))
            print(made[-1], flush=True)
    print(
        *summary_lines([each for name in names for each in summaries(rows[name], name)]), sep="\n"
    )
    is_whole = not any(row.troubles for found in rows.values() for row in found)
    if options.write is not None:
        text = "\n".join([f"{_TEXT}{facts}", "", *_HEAD, *made, ""])
        options.write.write_text(text, encoding="utf-8")
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
