"""Every model by its name, and every training of one."""

from __future__ import annotations

from benchmarks.training.application_models import APPLICATIONS
from benchmarks.training.small_models import SMALL
from benchmarks.training.training_cases import OPTIMIZERS, Training

MODELS = {model.name: model for model in (*APPLICATIONS, *SMALL)}


def _trainings() -> dict[str, Training]:
    """Every model with every optimizer, and a small one also with Keras's default compilation.

    The large ones are chaotic on images of a few pixels: after some steps, the effect of a single
    bit on their losses is meaningless.
    """
    rows = [Training(model, optimizer) for model in MODELS.values() for optimizer in OPTIMIZERS]
    rows += [Training(model, OPTIMIZERS[0], as_keras_does=True) for model in SMALL]
    return {row.name: row for row in rows}


TRAININGS = _trainings()
