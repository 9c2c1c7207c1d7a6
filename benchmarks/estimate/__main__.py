"""``peaks``: how accurate estimates are; ``batches``: whether a proposed batch is good."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.estimate import largest_batch, peaks
from benchmarks.machine import machine
from benchmarks.stages import open_stage


def main() -> int:
    """Parse the command line and run a part; its result is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    for part in (peaks, largest_batch):
        assert part.__doc__ is not None
        one = parts.add_parser(part.PART, description=part.__doc__)
        one.add_argument("--models", metavar="A,B", default="", help="whose name has one of these")
        one.add_argument("--cache", metavar="FILE", type=Path, help="keep measurements in FILE")
        part.add_arguments(one)
        one.set_defaults(run=part.run, names=part.STAGES)
    options = parser.parse_args()
    options.words = list(filter(None, options.models.split(",")))
    names = options.names[options.stage]
    print(machine("tensorflow", "keras", "gpuconf"), "", sep="\n", flush=True)
    with ExitStack() as stack:
        stages = [open_stage(name, os.environ, stack) for name in names]
        result: int = options.run(options, stages)
    return result


if __name__ == "__main__":
    sys.exit(main())
