"""GPU memory in use after each trial of a search, in one process and with ``gpuconf.isolated``.

The trials train ``models.tables.large_dense`` with more and more units, and free what a process can
free.  Needs ``optuna`` or ``keras-tuner``:

    python -m gpuconf.simcard run --total 8GiB --used 1GiB -- python -m benchmarks.isolated optuna

With ``ahead`` instead of a library, it measures how long calls take that work for ten seconds.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gpuconf
from benchmarks.machine import machine
from gpuconf.basics.units import MIB
from gpuconf.machine.cards import read_inventory

WAYS = ("one-process", "isolated")
STEP, TRIALS = 512, 20
Trial = Callable[[int], Any]


def train(units: int) -> None:
    """One step of a model with a weight of ``units`` × ``units``."""
    import keras
    import numpy as np

    from benchmarks.models.tables import large_dense

    model = large_dense("glorot_uniform", units)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(np.ones((8, units), "float32"), np.ones(8, "int32"), verbose=0)
    del model
    keras.backend.clear_session()
    gc.collect()


def search_optuna(trial: Trial) -> None:
    """Every number of units, the smallest first."""
    import optuna  # type: ignore[import-not-found,unused-ignore]

    study = optuna.create_study()
    for number in range(1, TRIALS + 1):
        study.enqueue_trial({"units": STEP * number})
    study.optimize(lambda each: trial(each.suggest_int("units", STEP, STEP * TRIALS)), TRIALS)


def search_keras_tuner(trial: Trial) -> None:
    """The same by Keras Tuner, which imports Keras into this process."""
    import keras_tuner  # type: ignore[import-not-found,unused-ignore]

    class Search(keras_tuner.GridSearch):  # type: ignore[misc,unused-ignore]  # no types
        def run_trial(self, trial_of_search: Any, *_: Any) -> Any:
            units = trial_of_search.hyperparameters.Int("units", STEP, STEP * TRIALS, step=STEP)
            return trial(units)

    with tempfile.TemporaryDirectory() as folder:
        Search(objective="val_loss", max_trials=TRIALS, directory=folder).search()


SEARCHES = {"optuna": search_optuna, "keras-tuner": search_keras_tuner}


def run_trials(library: str, *, is_isolated: bool) -> None:
    """Print a row for each trial: the memory in use after it, and its error."""
    gpuconf.configure("cpu-only" if is_isolated else "shared-desktop")
    one = gpuconf.isolated(profile="shared-desktop")(train) if is_isolated else train

    def trial(units: int) -> float:
        error = ""
        try:
            one(units)
        except Exception as raised:
            error = f", {type(raised).__name__}"
        used_bytes = read_inventory().gpus[0].used_bytes or 0
        print(f"| {units} | {used_bytes // MIB} MiB{error} |", flush=True)
        return 0.0

    SEARCHES[library](trial)


def compare_ahead() -> None:
    """Print how long each of five calls takes, without and with ``ahead=True``."""

    def call() -> float:
        started = time.perf_counter()
        import tensorflow  # noqa: F401

        imported_s = time.perf_counter() - started
        time.sleep(10)
        return imported_s

    print("| call | import | ahead | import |", "|---|---|---|---|", sep="\n")
    without, ahead = (gpuconf.isolated(ahead=each)(call) for each in (False, True))
    for _ in range(5):
        cells = []
        for function in (without, ahead):
            started = time.perf_counter()
            imported_s = function()
            cells.append(f"{time.perf_counter() - started:.1f} s | {imported_s:.1f} s")
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Run both ways, each in its own process, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=[*SEARCHES, "ahead"])
    parser.add_argument("way", choices=WAYS, nargs="?", help="run this one here; default: both")
    options = parser.parse_args()
    if options.library == "ahead":
        compare_ahead()
        return
    if options.way:
        run_trials(options.library, is_isolated=options.way == "isolated")
        return
    print(machine("gpuconf", "tensorflow", "keras", options.library), "", sep="\n")
    columns = []
    for way in WAYS:
        command = [sys.executable, "-m", "benchmarks.isolated", options.library, way]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        columns.append([line for line in text.splitlines() if line.startswith("| ")])
    print("| units | one process | isolated |", "|---|---|---|", sep="\n")
    for one_process, isolated in zip(*columns, strict=True):
        print(one_process + isolated.split("|", 2)[2])


if __name__ == "__main__":
    main()
