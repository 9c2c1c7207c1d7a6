"""What a model gives for a batch: the shapes and types of its outputs, and that it is built."""

from __future__ import annotations

import re
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.footprint.keras_models.data import Spec
from gpuconf.keras_api import nests, symbolic
from gpuconf.keras_api.families import KerasFamily


def outputs_of(model: Any, family: KerasFamily, inputs: Any) -> Any:
    """The specs of the outputs for inputs of these specs.

    A model that was never called is built by it.  Raises UsageError where it refuses the inputs.
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
    """Build a model that was never called: its weights are made, as a call would make them."""
    if not model.built or not hasattr(model, "weights"):
        _called(model, family, inputs)


def _is_open(leaf: Any) -> bool:
    """Whether more than the batch is unknown."""
    return leaf.shape is None or None in tuple(leaf.shape)[1:]


def _called(model: Any, family: KerasFamily, inputs: Any) -> Any:
    """Call it on symbolic inputs, as a functional model does with its layers."""

    def symbol(spec: Spec) -> Any:
        # Of no batch size: a Sequential that is built by it would be of that one for good.
        return family.keras.Input(shape=spec.shape[1:], dtype=spec.dtype)

    try:
        return symbolic.called(model, nests.mapped(symbol, inputs))
    except Exception as error:  # the model's own, of any kind
        shapes = [spec.shape for spec in nests.leaves(inputs)]
        raise UsageError(
            f"{type(model).__name__} does not build for inputs of {shapes}: {in_short(error)}",
            hint="give the shape of one sample: input_shape=(224, 224, 3), or "
            "--input-shape 224,224,3; or data=(inputs, targets)",
        ) from error


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST_LINES = 3


def in_short(error: Exception) -> str:
    """Its kind and the lines that say what happened: Keras adds the arguments of the call."""
    text = _COLOUR.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines[:1] == ["in user code:"]:  # AutoGraph's: where it was comes first, what it is last
        return lines[-1]
    ends = [at for at, line in enumerate(lines) if line.startswith("Arguments received by")]
    return " ".join([f"{type(error).__name__}:", *lines[: min([*ends, _MOST_LINES])]])
