"""Estimates and peaks of a real GPU, op by op and compiled by XLA: a part of `make gpu`.

Prints a table and, with ``--write FILE``, writes it.  Each case runs two steps in a fresh process;
the peak is that of TensorFlow's allocator.  The first step's peak is shown in addition: in it cuDNN
and XLA try algorithms.  With ``--file FILE``, measurements are stored there, and not repeated; on a
machine without a GPU the table has those of the file.  ``--card simulated`` measures on a simulated
card.  Exit code 1 if a case could not be measured or estimated, 2 without a GPU and a file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.estimate.cases import Case, only_models, tuned_cases
from benchmarks.estimate.estimates import Estimate, estimate_group
from benchmarks.estimate.measurements import Measured, Measurements
from benchmarks.machine import machine
from benchmarks.stages import Stage, open_stage
from gpuconf.basics.units import MIB
from gpuconf.machine.cards.nvml import read_inventory

MODELS = (
    "ResNet50,MobileNetV2,VGG16,EfficientNetB0,digits,U-Net 128,dense net,transformer LM,ViT,LSTM"
)
_TEXT = """\
# Estimates and a real GPU

What `gpuconf estimate` says of a step and what TensorFlow's allocator counted, in MiB, under a
limit of 11264 MiB. Op by op, *measured* is the peak of the whole process, with the workspaces that
cuDNN tried in the first step; with XLA it is the second step's, and the first one's is beside it.
[What to make of it](estimate.md#how-right-it-is).

"""
_HEAD = (
    "| case | path | first step | measured | estimated | error |",
    "|---|---|---:|---:|---:|---:|",
)


def lines_of(
    cases: Sequence[Case], stages: Sequence[Stage], kept: Measurements, *, may_measure: bool
) -> Iterator[tuple[str, bool]]:
    """A line of the table for each case and path, and whether all its values are known."""
    for case in cases:
        for stage, path in zip(stages, ("op by op", "XLA"), strict=True):
            if not may_measure and not kept.has(case, stage):
                continue
            estimate = estimate_group([case], os.environ, jit=path == "XLA")[case.name]
            yield _line(case, path, kept.measure(case, stage), estimate)


def _line(case: Case, path: str, found: Measured, estimate: Estimate) -> tuple[str, bool]:
    if error := found.error or estimate.error:
        return f"| {case.name} | {path} | {error} | | | |", False
    assert found.peak_bytes is not None
    assert estimate.one_region_bytes is not None
    sizes = (found.first_step_peak_bytes or 0, found.peak_bytes, estimate.one_region_bytes)
    cells = " | ".join(f"{size / MIB:.1f}" for size in sizes)
    error = f"{100 * (estimate.one_region_bytes / found.peak_bytes - 1):+.1f}%"
    return f"| {case.name} | {path} | {cells} | {error} |", True


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--card", choices=("real", "simulated"), default="real")
    parser.add_argument(
        "--models", metavar="A,B", default=MODELS, help="whose name has one of these"
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
    cases = only_models(tuned_cases(), options.models.split(","))
    kept = Measurements(options.file)
    source = options.file if options.file is not None else f"{options.card} card"
    facts = f"{machine('tensorflow', 'keras', 'gpuconf')}; measured: {source}"
    print(facts, "", *_HEAD, sep="\n", flush=True)
    made, is_whole = [], True
    names = ("gpu", "gpu-xla") if options.card == "real" else ("card", "card-xla")
    with ExitStack() as stack:
        stages = [open_stage(name, os.environ, stack) for name in names]
        for line, is_known in lines_of(cases, stages, kept, may_measure=may_measure):
            print(line, flush=True)
            made.append(line)
            is_whole = is_whole and is_known
    if options.write is not None:
        text = "\n".join([f"{_TEXT}{facts}", "", *_HEAD, *made, ""])
        options.write.write_text(text, encoding="utf-8")
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
