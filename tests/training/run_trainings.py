"""Run the trainings named on the command line on this process's side; see ``train_models``.

Each ends with collections of garbage, some 0.3 s each over what TensorFlow and Keras have imported:
Python's collector is told to leave that alone.
"""

from __future__ import annotations

import gc

from benchmarks.training.on_device import run_cases
from benchmarks.training.train_models import train

if __name__ == "__main__":
    import keras  # noqa: F401

    gc.freeze()
    run_cases(train)
