"""The names by which a report can say what memory was for: layers, optimizers, variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuconf.keras_api.layers import layers_of
from gpuconf.keras_api.variables import bytes_of, optimizer_variables, path_of


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
    slots = [each for optimizer in optimizers for each in optimizer_variables(optimizer)]
    return {
        "layers": sorted(layers - {""}),
        "optimizers": sorted({str(getattr(each, "name", each)) for each in optimizers}),
        "weights": [bytes_of(each) for each in weights.values()],
        "slots": [bytes_of(each) for each in slots if id(each) not in weights],
    }


def _layers(model: Any) -> list[str]:
    return [str(layer.name) for layer in layers_of(model)]


def _layer_of(variable: Any) -> str:
    """``c1`` of ``sequential/c1/kernel`` and of ``c1/kernel:0``."""
    return path_of(variable).rpartition("/")[0].rpartition("/")[2]
