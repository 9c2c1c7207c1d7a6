"""Cost of gpuconf.predict, evaluate and fit over Keras's own at one batch size.  `make batches`.

Both run the same model on the same arrays in one process, in turn, so that noise on the machine
affects both alike; the ratio is taken round by round.  Goal for predict and evaluate: 1.03.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.machine import machine

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


class Case(NamedTuple):
    """A model with its data, and a batch size that suits it."""

    name: str
    model: Any
    x: Any
    y: Any
    batch_size: int


def cases() -> list[Case]:
    """A dense network, whose steps are short; a convolutional one; a large one."""
    import keras
    import numpy as np

    rng = np.random.default_rng(1)
    layers = keras.layers
    dense = [keras.Input((64,)), layers.Dense(256, activation="relu"), layers.Dense(10)]
    small = [keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu")]
    small += [layers.MaxPooling2D(), layers.Flatten(), layers.Dense(10)]
    large = keras.applications.MobileNetV2((96, 96, 3), weights=None, classes=10)
    made = []
    for name, model, shape, count, batch in (
        ("dense, batch 512", keras.Sequential(dense), (64,), 60_000, 512),
        ("convolutions, batch 256", keras.Sequential(small), (28, 28, 1), 10_000, 256),
        ("MobileNetV2, batch 32", large, (96, 96, 3), 192, 32),
    ):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"])
        x = rng.random((count, *shape), dtype=np.float32)
        made.append(Case(name, model, x, rng.integers(0, 10, count), batch))
    return made


def pairs(case: Case) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Keras's call and ours, by operation."""
    import gpuconf

    model, x, y = case.model, case.x, case.y
    options: dict[str, Any] = {"batch_size": case.batch_size, "verbose": 0}
    return {
        "predict": (
            lambda: model.predict(x, **options),
            lambda: gpuconf.predict(model, x, **options),
        ),
        "evaluate": (
            lambda: model.evaluate(x, y, **options),
            lambda: gpuconf.evaluate(model, x, y, **options),
        ),
        "fit": (
            lambda: model.fit(x, y, **options),
            lambda: gpuconf.fit(model, x, y, **options),
        ),
    }


def seconds_of(call: Callable[[], Any]) -> float:
    """Wall-clock seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def measured(
    keras_s: Callable[[], Any], ours_s: Callable[[], Any], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of both; the order alternates, and the first round, which traces, is dropped."""
    seconds_of(keras_s), seconds_of(ours_s)
    theirs, ours = [], []
    for number in range(rounds):
        if number % 2:
            ours.append(seconds_of(ours_s))
            theirs.append(seconds_of(keras_s))
        else:
            theirs.append(seconds_of(keras_s))
            ours.append(seconds_of(ours_s))
    return theirs, ours


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="default: 15")
    rounds = parser.parse_args().rounds
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    print(
        machine("tensorflow", "keras"),
        f"on {gpus[0].name if gpus else 'the CPU'}; {rounds} rounds",
        sep="\n",
    )
    print(f"{'':36}{'Keras':>10}{'gpuconf':>10}{'ratio':>8}   quartiles")
    for case in cases():
        for what, (theirs_call, ours_call) in pairs(case).items():
            theirs, ours = measured(theirs_call, ours_call, rounds)
            ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            keras_ms, ours_ms = statistics.median(theirs) * 1e3, statistics.median(ours) * 1e3
            print(
                f"{what:9} {case.name:26}{keras_ms:7.0f} ms{ours_ms:7.0f} ms{middle:8.3f}"
                f"   {low:.3f} to {high:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
