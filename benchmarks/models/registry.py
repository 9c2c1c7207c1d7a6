"""Every model by its name, and the sets of them: trained, estimated, and unseen."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml

from benchmarks.models.data import Batches, draw, pad

ScenarioRuns = Literal["learn", "held"]
SEED = 20


class Model(NamedTuple):
    """How a model is built, fed and compiled: a row of ``models.yaml``, which explains it."""

    name: str
    builder: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012  # never written
    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    loss: Any = "logits"
    batches: tuple[int, ...] = ()
    batch_size: int = 4
    optimizer_options: dict[str, Any] = {}  # noqa: RUF012  # never written
    loss_weights: list[float] | None = None
    policy: str = "float32"
    input_shape: tuple[int, ...] | None = None
    on_cudnn: bool = False
    is_core: bool = False
    is_padded: bool = False

    def build(self) -> Any:
        """The model, not compiled."""
        if not self.builder:
            return self._application()
        module, _, function = self.builder.partition(".")
        return getattr(importlib.import_module(f"benchmarks.models.{module}"), function)(
            **self.arguments
        )

    def _application(self) -> Any:
        import keras

        make = getattr(keras.applications, self.name.split()[0])
        return make(weights=None, **self.arguments)

    def data(self, random: np.random.Generator, count: int) -> Batches:
        """``count`` samples."""
        found = draw(self.inputs, self.targets, random, count)
        if self.is_padded:
            pad(found.inputs, random)
        return found

    def make_loss(self) -> Any:
        """The loss for ``compile``."""
        if self.loss != "logits":
            return self.loss
        import keras

        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _model(name: str, row: dict[str, Any]) -> Model:
    """The model of a row; one without a builder is ``NAME SIDE`` of keras.applications."""
    tuples = ("inputs", "targets", "batches", "input_shape")
    fields: dict[str, Any] = {**row, **{key: tuple(row[key]) for key in tuples if key in row}}
    if "builder" not in row:
        side, classes = int(name.split()[1].partition("×")[0]), fields.pop("classes", 10)
        fields["arguments"] = {"input_shape": (side, side, 3), "classes": classes}
        fields |= {"inputs": (f"uniform {side} {side} 3",), "targets": (f"classes {classes}",)}
        fields["loss"] = "sparse_categorical_crossentropy"
    return Model(name, **fields)


_ROWS: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("models.yaml").read_text(encoding="utf-8")
)
TRAINED = {name: _model(name, row) for name, row in _ROWS["trained"].items()}
# Those that are trained with small batches are estimated with large ones, if they have any.
ESTIMATED = {name: _model(name, row) for name, row in _ROWS["estimated"].items()} | {
    name: model for name, model in TRAINED.items() if model.batches
}
UNSEEN = {name: _model(name, row) for name, row in _ROWS["unseen"].items()}
MEASURED = ESTIMATED | UNSEEN  # a trained one, "ConvLSTM", has a namesake there


def is_application(model: Model) -> bool:
    """Whether the model is one of ``keras.applications``."""
    return not model.builder


def half_of(name: str) -> ScenarioRuns:
    """The half of an unseen model, determined only by a hash of its name."""
    return "held" if hashlib.sha256(name.encode()).digest()[0] % 2 else "learn"
