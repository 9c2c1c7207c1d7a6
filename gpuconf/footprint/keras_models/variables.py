"""The variables of a model and what was made for its training: kinds, sizes, layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuconf.footprint.step import OPTIMIZER_STATE, OTHER_STATE, WEIGHTS, Variable


class Known(NamedTuple):
    """All variables, each once, and those behind TensorFlow's handles, by the handle's identity."""

    variables: tuple[Variable, ...]
    by_handle: Mapping[int, Variable]


def variables_of(model: Any, layers: Mapping[int, str], *, training: bool) -> Known:
    """Weights, optimizer state where it is trained, and the rest: metrics, random seeds."""
    weights = list(model.weights)
    paths = {path_of(each): layers.get(id(each)) for each in weights}
    state = _listed(model.optimizer) if training else []
    others = [*model.variables, *(each for metric in model.metrics for each in metric.variables)]
    found: dict[int, tuple[Any, Variable]] = {}
    for kind, group in ((WEIGHTS, weights), (OPTIMIZER_STATE, state), (OTHER_STATE, others)):
        for each in group:
            if id(each) not in found:
                layer = layers.get(id(each))
                if kind == OPTIMIZER_STATE:
                    layer = _layer_by_name(path_of(each), paths)
                found[id(each)] = (each, Variable(path_of(each), bytes_of(each), kind, layer))
    handles = {id(handle_of(each)): variable for each, variable in found.values()}
    return Known(tuple(variable for _, variable in found.values()), handles)


def handle_of(variable: Any) -> Any:
    """TensorFlow's handle of a variable of Keras 2 or 3."""
    inner = getattr(variable, "_value", None)
    if inner is None or not hasattr(inner, "handle"):
        inner = variable
    return getattr(inner, "handle", inner)


def path_of(variable: Any) -> str:
    """Its full name: ``dense/kernel``."""
    return str(getattr(variable, "path", None) or variable.name).split(":", maxsplit=1)[0]


def bytes_of(variable: Any) -> int:
    """Bytes of its values."""
    import tensorflow as tf

    name = variable.dtype if isinstance(variable.dtype, str) else variable.dtype.name
    return int(math.prod(tuple(variable.shape)) * tf.as_dtype(name).size)


def _listed(optimizer: Any) -> list[Any]:
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def _layer_by_name(name: str, paths: Mapping[str, str | None]) -> str | None:
    """Keras names an optimizer's variables after the weights: ``adam/dense_kernel_momentum``."""
    flat = name.replace("/", "_")
    matching = [path for path in paths if path.replace("/", "_") in flat]
    return paths[max(matching, key=len)] if matching else None
