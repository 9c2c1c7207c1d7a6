"""Train small models on the CPU and on the simulated GPU and compare: `make models`.

Writes docs/trained-models.md.  Exit code 1 if a row does not agree.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.models.registry import TRAINED, is_application
from benchmarks.stages import Result, Stage, card, comparable_cpu, default_cpu, run_cases
from benchmarks.training.models_page import Row, page, table
from benchmarks.training.trainings import OPTIMIZERS, TRAININGS, Training

PROGRAM = Path(__file__).with_name("train_models.py")
WRITTEN = Path(__file__).resolve().parents[2] / "docs" / "trained-models.md"
# One at a time, so that the peaks do not depend on which of two nodes happens to run first.
INTER_OP_THREADS = 1


def train_all(names: Sequence[str], scratch: Path) -> Iterator[Row]:
    """Train on the three sides, one group of rows at a time, and compare."""
    plain = comparable_cpu(os.environ, inter_op_threads=INTER_OP_THREADS)
    default = default_cpu(os.environ, inter_op_threads=INTER_OP_THREADS)
    with card(os.environ, inter_op_threads=INTER_OP_THREADS) as simulated:
        for group in _groups(names):
            on_cpu = _run(plain, group, scratch)
            on_card = _run(simulated, group, scratch)
            on_default = _run(default, [n for n in group if _has_default(TRAININGS[n])], scratch)
            for name in group:
                yield Row(TRAININGS[name], on_cpu[name], on_card[name], on_default.get(name))


def _has_default(training: Training) -> bool:
    """The rows that are also trained with the CPU's defaults: one for each model."""
    return training.optimizer == OPTIMIZERS[0] and not training.as_keras_does


def _groups(names: Sequence[str]) -> Iterator[list[str]]:
    """The cases of one process: each large model alone, all small ones together."""
    for model in filter(is_application, TRAINED.values()):
        yield [name for name in names if TRAININGS[name].model == model]
    yield [name for name in names if not is_application(TRAININGS[name].model)]


def _run(stage: Stage, names: Sequence[str], scratch: Path) -> Mapping[str, Result]:
    if names:
        print(f"{stage.name}: {', '.join(names)}", file=sys.stderr, flush=True)
    return run_cases(stage, PROGRAM, names, scratch)


def main() -> int:
    """Train, compare and write."""
    with tempfile.TemporaryDirectory(prefix="trained-models-") as scratch:
        rows = list(train_all(list(TRAININGS), Path(scratch)))
    WRITTEN.write_text(page(rows), encoding="utf-8")
    print(table(rows))
    return 0 if rows and all(row.agrees for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
