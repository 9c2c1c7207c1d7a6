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
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.stages import Result, Stage, card, plain_environ, run_cases
from benchmarks.training.models_page import simulated_machine
from benchmarks.training.on_device import CARD
from benchmarks.training.trainings import TRAININGS
from gpuconf.units import MIB

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


def lines(names: Sequence[str], scratch: Path) -> Iterator[tuple[str, bool]]:
    """A line of the table for each training, and whether it ran on both sides."""
    # The GPU that this process's TensorFlow would find, with its settings.
    real = Stage("gpu", {**os.environ, **plain_environ(os.environ, side=CARD)})
    on_gpu = run_cases(real, PROGRAM, names, scratch)
    with card(os.environ) as simulated:
        on_card = run_cases(simulated, PROGRAM, names, scratch)
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
    text = "\n".join([f"{simulated_machine()}\n", *_HEAD, *(line for line, _ in made)])
    print(text)
    if options.write is not None:
        options.write.write_text(f"{_TEXT}{text}\n", encoding="utf-8")
    return 0 if made and all(ran for _, ran in made) else 1


if __name__ == "__main__":
    sys.exit(main())
