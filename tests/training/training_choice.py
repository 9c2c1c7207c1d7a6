"""What the tests of trainings share: which they are, and the results of two sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.models.registry import TRAINED as MODELS
from benchmarks.models.registry import is_application
from benchmarks.stages import Result
from benchmarks.training.trainings import OPTIMIZERS, TRAININGS, Training


class BothSides(NamedTuple):
    """Results by name."""

    on_cpu: Mapping[str, Result]
    on_card: Mapping[str, Result]


def _subset() -> list[str]:
    """Every small model with one optimizer, in rotation, three as Keras compiles, and one large."""
    small = [model for model in MODELS.values() if not is_application(model)]
    rows = [
        Training(model, OPTIMIZERS[number % len(OPTIMIZERS)]) for number, model in enumerate(small)
    ]
    usual = ("convolutions, batch norm", "transformer block", "dense network")
    rows += [Training(MODELS[name], OPTIMIZERS[0], as_keras_does=True) for name in usual]
    rows.append(Training(MODELS["MobileNetV2 32×32"], "sgd"))
    return [row.name for row in rows]


TRAINED = _subset()
IN_THE_GATE = "convolutions, batch norm / adam, auto"
assert all(name in TRAININGS for name in TRAINED)
