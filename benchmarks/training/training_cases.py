"""The definition of a model to train, and all trainings: the rows of ``docs/trained-models.md``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
OPTIMIZERS = ("adam", "sgd", "rmsprop")
STEPS = 4
SEED = 20


class Batches(NamedTuple):
    """The data for ``fit``: inputs and targets, one array or several of each."""

    inputs: Any
    targets: Any


class Model(NamedTuple):
    """A small model: how it is built, fed and compiled.

    ``build`` imports Keras itself, so that this table can be read without it.  ``data`` makes the
    given number of samples.  ``loss`` is an argument of ``compile``, or a function that returns
    one.  ``optimizer_options`` go to the optimizer's constructor; ``policy`` is Keras's dtype
    policy.  ``on_cudnn`` says that Keras uses cuDNN's LSTM or GRU if there is a GPU.
    """

    name: str
    build: Callable[[], Any]
    data: Callable[[np.random.Generator, int], Batches]
    loss: Any
    batch_size: int = 4
    optimizer_options: dict[str, Any] = {}  # noqa: RUF012  # never written
    loss_weights: Any = None
    policy: str = "float32"
    on_cudnn: bool = False


class Training(NamedTuple):
    """A row: a model, an optimizer, and how ``compile`` was called.

    Keras's default, ``jit_compile="auto"``, means XLA for most models if there is a GPU. The
    simulated card has no XLA and runs such functions op by op, with fewer of grappler's passes than
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
    def name(self) -> str:
        """The row in words."""
        return f"{self.model.name} / {self.optimizer}{', auto' * self.as_keras_does}"


def images(height: int, width: int, channels: int = 3, classes: int = 10) -> Any:
    """Data for an image classifier."""

    def make(random: np.random.Generator, count: int) -> Batches:
        shape = (count, height, width, channels)
        return Batches(random.random(shape, dtype=np.float32), random.integers(0, classes, count))

    return make


def series(*shape: int, classes: int = 3) -> Any:
    """Data for a classifier, normally distributed."""

    def make(random: np.random.Generator, count: int) -> Batches:
        values = random.standard_normal((count, *shape), dtype=np.float32)
        return Batches(values, random.integers(0, classes, count))

    return make


def words(length: int, vocabulary: int, classes: int = 3) -> Any:
    """Data for a sentence classifier; each sentence is a row of word numbers."""

    def make(random: np.random.Generator, count: int) -> Batches:
        sentences = random.integers(1, vocabulary, (count, length)).astype(np.int32)
        return Batches(sentences, random.integers(0, classes, count))

    return make
