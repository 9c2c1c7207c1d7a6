"""The variables of a model and what was made for its training: kinds, sizes, layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuconf.footprint.step import OPTIMIZER_STATE, OTHER_STATE, WEIGHTS, Variable
from gpuconf.keras_api.variables import bytes_of, handle_of, optimizer_variables, path_of


class Known(NamedTuple):
    """All variables, each once, and those behind TensorFlow's handles, by the handle's identity."""

    variables: tuple[Variable, ...]
    by_handle: Mapping[int, Variable]


def variables_of(model: Any, layers: Mapping[int, str], *, training: bool) -> Known:
    """Weights, optimizer state where it is trained, and the rest: metrics, random seeds."""
    weights = list(model.weights)
    paths = {path_of(each): layers.get(id(each)) for each in weights}
    state = optimizer_variables(model.optimizer) if training else []
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


def _layer_by_name(name: str, paths: Mapping[str, str | None]) -> str | None:
    """Keras names an optimizer's variables after the weights: ``adam/dense_kernel_momentum``."""
    flat = name.replace("/", "_")
    matching = [path for path in paths if path.replace("/", "_") in flat]
    return paths[max(matching, key=len)] if matching else None
