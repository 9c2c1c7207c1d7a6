"""A model's symbolic inputs and outputs as Keras stores them, and a call without side effects."""

from __future__ import annotations

from typing import Any


def inputs_of(model: Any) -> Any:
    """The symbolic inputs of a functional or sequential model, nested as given, or None."""
    struct = _noted(model, "_inputs_struct", "_nested_inputs")
    if struct is None:
        try:
            struct = model.inputs
        except (AttributeError, ValueError):  # a subclassed model has none
            struct = None
    return None if struct is None or (isinstance(struct, list) and not struct) else struct


def outputs_of(model: Any) -> Any:
    """The symbolic outputs of a functional or sequential model, nested as given, or None."""
    return _noted(model, "_outputs_struct", "_nested_outputs")


def model_within(model: Any) -> Any:
    """The functional model inside a sequential one; None for other models."""
    return getattr(model, "_functional", None)


def built_shape(model: Any) -> Any:
    """The shape, including the batch, that a subclassed model was built with; several as a
    tuple."""
    shapes = getattr(model, "_build_shapes_dict", None)  # Keras 3
    if shapes:
        return next(iter(shapes.values())) if len(shapes) == 1 else tuple(shapes.values())
    return getattr(model, "_build_input_shape", None)  # Keras 2


def called(model: Any, symbols: Any) -> Any:
    """The model's outputs for symbolic inputs; afterwards the model is as it was before the
    call."""
    nodes = getattr(model, "_inbound_nodes", [])
    calls = len(nodes)
    try:
        return model(symbols)
    finally:
        del nodes[calls:]


def _noted(model: Any, of_keras_3: str, of_keras_2: str) -> Any:
    """Read an attribute; Keras 3's Sequential wraps a functional model."""
    for holder in (model, model_within(model)):
        for name in (of_keras_3, of_keras_2):
            struct = getattr(holder, name, None)
            if struct is not None:
                return struct
    return None
