"""All trainings: the cells of ``docs/trained-models.md``."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.models.registry import TRAINED, Model, is_application

OPTIMIZERS = ("adam", "sgd", "rmsprop")
STEPS = 4


class Training(NamedTuple):
    """A cell: a model, an optimizer, and how ``compile`` was called.

    Keras's default, ``jit_compile="auto"``, means XLA for most models if there is a GPU. The
    simulated GPU has no XLA and runs such functions op by op, with fewer of grappler's passes than
    the same functions on a CPU: ``as_keras_does`` rows differ in the last bits.
    """

    model: Model
    optimizer: str
    as_keras_does: bool = False

    @property
    def same_kernels(self) -> bool:
        """Whether both sides use the same kernels in the same order: even the last bits match."""
        return not (self.as_keras_does or self.model.on_cudnn)

    @property
    def column(self) -> str:
        """Its column of the page: the optimizer, and whether XLA is left to Keras."""
        return f"{self.optimizer}{', auto' * self.as_keras_does}"

    @property
    def name(self) -> str:
        """The training in words."""
        return f"{self.model.name} / {self.column}"


def _trainings() -> dict[str, Training]:
    """Every model with every optimizer, and a small one also with Keras's default compilation.

    The large ones are chaotic on images of a few pixels: after some steps, the effect of a single
    bit on their losses is meaningless.
    """
    rows = [Training(model, optimizer) for model in TRAINED.values() for optimizer in OPTIMIZERS]
    small = [model for model in TRAINED.values() if not is_application(model)]
    rows += [Training(model, OPTIMIZERS[0], as_keras_does=True) for model in small]
    return {row.name: row for row in rows}


TRAININGS = _trainings()
