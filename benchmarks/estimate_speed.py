"""Seconds that `gpuconf estimate` takes beyond an import of TensorFlow and Keras.

Every round runs each command once, in turn, so that noise on the machine affects all alike.  The
figures are medians, less that of the plain import alone.  The command imports without garbage
collection, and the time saved is credited to it: see the last row.  On an idle core CPU time equals
wall time.  With XLA a child process compiles in parallel, so wall time is used there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.run_cost import interleaved

IMPORT = "the import alone"
BARE_IMPORT = "the import, no garbage collection"
MODELS = """
import keras


def resnet50():
    model = keras.applications.ResNet50(weights=None)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def mobilenet_v2():
    model = keras.applications.MobileNetV2(weights=None)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def convnet():
    inputs = keras.Input((64, 64, 3))
    hidden = keras.layers.Conv2D(16, 3, activation="relu")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10)(keras.layers.Flatten()(hidden)))
    model.compile("adam", "mse")
    return model
"""
WAYS = {
    "op by op": ("--no-jit",),
    "op by op, largest batch too": ("--no-jit", "--limit", "6GiB"),
    "under XLA": (),
}


def commands(file: Path, models: list[str], ways: list[str]) -> dict[str, list[str]]:
    """The command of each row."""
    start = [sys.executable, "-m", "gpuconf", "estimate"]
    imports = "import tensorflow, keras"
    found = {
        IMPORT: [sys.executable, "-c", imports],
        BARE_IMPORT: [sys.executable, "-c", f"import gc; gc.disable(); {imports}"],
    }
    for model in models:
        for way in ways:
            found[f"{model}, {way}"] = [*start, f"{file}:{model}", *WAYS[way]]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--models", default="resnet50,mobilenet_v2,convnet", help="some of them")
    parser.add_argument("--op-by-op", action="store_true", help="leave XLA out")
    options = parser.parse_args()
    ways = [way for way in WAYS if not (options.op_by_op and way == "under XLA")]
    header = machine("tensorflow", "keras")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "networks.py"
        file.write_text(MODELS, encoding="utf-8")
        rows = commands(file, options.models.split(","), ways)
        costs = interleaved({n: (words, os.environ) for n, words in rows.items()}, options.rounds)
    alone, bare = costs.pop(IMPORT), costs.pop(BARE_IMPORT)
    print(f"{header}; batch 32")
    print(f"{'seconds beyond the import':44}{'passed':>8}{'CPU':>8}")
    for name, cost in costs.items():
        print(f"{name:44}{cost.wall_s - alone.wall_s:8.1f}{cost.cpu_s - alone.cpu_s:8.1f}")
    for name, cost in {IMPORT: alone, BARE_IMPORT: bare}.items():
        print(f"{name:44}{cost.wall_s:8.1f}{cost.cpu_s:8.1f}")


if __name__ == "__main__":
    main()
