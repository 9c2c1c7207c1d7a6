"""The names by which a report can say what memory was for: layers, optimizers, variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def names_of(
    models: Iterable[Any], optimizers: Iterable[Any], variables: Iterable[Any]
) -> dict[str, Any]:
    """Names of layers and optimizers, and the bytes of each weight and optimizer variable.

    A loop of the program's own shows no model: its layers are read from the variables' names.
    """
    models, optimizers, trained = list(models), list(optimizers), list(variables)
    layers = {name for model in models for name in _layers(model)}
    layers.update(_layer_of(variable) for variable in trained)
    weights = {id(each): each for model in models for each in model.weights}
    weights.update((id(each), each) for each in trained)
    slots = [each for optimizer in optimizers for each in _variables(optimizer)]
    return {
        "layers": sorted(layers - {""}),
        "optimizers": sorted({str(getattr(each, "name", each)) for each in optimizers}),
        "weights": [_bytes(each) for each in weights.values()],
        "slots": [_bytes(each) for each in slots if id(each) not in weights],
    }


def _layers(model: Any) -> list[str]:
    flat = getattr(model, "_flatten_layers", None)
    layers = list(flat(include_self=False)) if flat is not None else model.layers
    return [str(layer.name) for layer in layers]


def _layer_of(variable: Any) -> str:
    """``c1`` of ``sequential/c1/kernel`` and of ``c1/kernel:0``."""
    path = str(getattr(variable, "path", getattr(variable, "name", "")))
    return path.rpartition("/")[0].rpartition("/")[2]


def _variables(optimizer: Any) -> list[Any]:
    found = optimizer.variables
    return list(found() if callable(found) else found)


def _bytes(variable: Any) -> int:
    import tensorflow

    item = int(tensorflow.as_dtype(variable.dtype).size)
    for size in variable.shape:
        item *= int(size)
    return item
