"""The same trainings on this machine's GPU and on the simulated card, in two columns: `make gpu`.

Prints a table and, with ``--write FILE``, writes it.  The losses may differ, because a GPU's own
kernels round differently; the peaks are what matters here.  Exit code 1 if a training did not run
on one of the sides.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.training.all_models import TRAININGS
from benchmarks.training.models_page import machine
from benchmarks.training.on_device import CARD, SIDE_VARIABLE
from benchmarks.training.sides import Result, Side, card, run_side
from gpuconf.units import MIB

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("train_models.py")
_TEXT = """\
# Models trained on a real GPU and on the simulated card

Written by `make gpu` on a machine with an NVIDIA GPU. Peaks are those of TensorFlow's allocator, in
MiB; cuDNN's workspaces and XLA's doings are in the real GPU's column and not in the other.

"""
_HEAD = (
    "| model | optimizer | loss, GPU | loss, simulated | peak, GPU | peak, simulated | ratio |",
    "|---|---|---:|---:|---:|---:|---:|",
)


def gpu(environ: Mapping[str, str]) -> Side:
    """The GPU that this process's TensorFlow would find, with nothing else changed."""
    paths = [str(ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    return Side("gpu", {**environ, SIDE_VARIABLE: CARD, "PYTHONPATH": os.pathsep.join(paths)})


def lines(names: Sequence[str], scratch: Path) -> Iterator[tuple[str, bool]]:
    """A line of the table for each training, and whether it ran on both sides."""
    on_gpu = run_side(gpu(os.environ), PROGRAM, names, scratch)
    with card(os.environ) as simulated:
        on_card = run_side(simulated, PROGRAM, names, scratch)
    for name in names:
        training = TRAININGS[name]
        cells = [training.model.name, training.optimizer + ", auto" * training.as_keras_does]
        yield _line(cells, on_gpu[name], on_card[name])


def _line(cells: Sequence[str], on_gpu: Result, on_card: Result) -> tuple[str, bool]:
    for side, result in (("GPU", on_gpu), ("simulated card", on_card)):
        if result.error is not None:
            last = result.error.strip().splitlines()[-1]
            return f"| {' | '.join(cells)} | on the {side}: {last} | | | | |", False
    losses = [f"{result.facts['loss']:.6f}" for result in (on_gpu, on_card)]
    peaks = [result.facts["peak_bytes"] / MIB for result in (on_gpu, on_card)]
    figures = [*losses, *(f"{peak:.2f}" for peak in peaks), f"{peaks[1] / peaks[0]:.2f}"]
    return f"| {' | '.join([*cells, *figures])} |", True


def main() -> int:
    """Train on both, print, and write if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="WORD", help="trainings whose name has this word")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the page there too")
    options = parser.parse_args()
    names = [name for name in TRAININGS if options.only is None or options.only in name]
    with tempfile.TemporaryDirectory(prefix="compared-with-gpu-") as scratch:
        made = list(lines(names, Path(scratch)))
    text = "\n".join([f"{machine()}\n", *_HEAD, *(line for line, _ in made)])
    print(text)
    if options.write is not None:
        options.write.write_text(f"{_TEXT}{text}\n", encoding="utf-8")
    return 0 if made and all(ran for _, ran in made) else 1


if __name__ == "__main__":
    sys.exit(main())
