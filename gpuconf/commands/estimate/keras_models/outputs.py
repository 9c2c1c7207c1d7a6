"""Computes the shapes and types of a model's outputs for a batch, and builds the model."""

from __future__ import annotations

import re
from typing import Any

from gpuconf.commands.estimate.keras_models.data import Spec
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests, symbolic
from gpuconf.support.keras_api.families import KerasFamily


def outputs_of(model: Any, family: KerasFamily, inputs: Any) -> Any:
    """Return the specs of the outputs for inputs with these specs.

    Builds a model that was never called.  Raises UsageError if the model rejects the inputs.
    """
    batch_size = nests.leaves(inputs)[0].shape[0]
    outputs = symbolic.outputs_of(model)
    if outputs is None or any(_is_open(each) for each in nests.leaves(outputs)):
        outputs = _called(model, family, inputs)

    def spec(leaf: Any) -> Any:
        name = leaf.dtype if isinstance(leaf.dtype, str) else leaf.dtype.name
        shape = tuple(leaf.shape)
        return Spec((batch_size, *shape[1:]) if shape else (), name)

    return nests.mapped(spec, outputs)


def build(model: Any, family: KerasFamily, inputs: Any) -> None:
    """Build a model that was never called, creating its weights as a call would."""
    if not model.built or not hasattr(model, "weights"):
        _called(model, family, inputs)


def _is_open(leaf: Any) -> bool:
    """Whether dimensions other than the batch are unknown."""
    return leaf.shape is None or None in tuple(leaf.shape)[1:]


def _called(model: Any, family: KerasFamily, inputs: Any) -> Any:
    """Call the model on symbolic inputs, as a functional model calls its layers."""

    def symbol(spec: Spec) -> Any:
        # Without a batch size: a Sequential built with one would keep it.
        return family.keras.Input(shape=spec.shape[1:], dtype=spec.dtype)

    try:
        return symbolic.called(model, nests.mapped(symbol, inputs))
    except Exception as error:  # any kind, from the model
        shapes = [spec.shape for spec in nests.leaves(inputs)]
        raise UsageError(
            f"{type(model).__name__} cannot be built for inputs {shapes}: {in_short(error)}",
            hint="pass the shape of one sample: input_shape=(224, 224, 3), or "
            "--input-shape 224,224,3; or data=(inputs, targets)",
        ) from error


_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_MOST_LINES = 3


def in_short(error: Exception) -> str:
    """Return the error's type and the relevant lines, without the arguments that Keras adds."""
    text = _COLOR.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines[:1] == ["in user code:"]:  # AutoGraph's: the location comes first, the error last
        return lines[-1]
    ends = [at for at, line in enumerate(lines) if line.startswith("Arguments received by")]
    return " ".join([f"{type(error).__name__}:", *lines[: min([*ends, _MOST_LINES])]])
