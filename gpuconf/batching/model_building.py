"""All variables made before the first step, so that what a step changes can be undone."""

from __future__ import annotations

from typing import Any

from gpuconf.batching.card_batch import attempt
from gpuconf.keras_api import nests
from gpuconf.keras_api.layers import layers_of
from gpuconf.keras_api.variables import build_optimizer


def make_variables(model: Any, step: Any, data: Any) -> None:
    """Make those of a model without input shapes, and of its metrics; computes nothing.

    Keras makes them while it traces its first step, so the step is traced. One that runs eagerly
    has no trace; there the model is called with one sample, as for a prediction.
    """
    if hasattr(step, "get_concrete_function"):
        attempt(lambda: step.get_concrete_function(data))
    elif not all(layer.built for layer in layers_of(model, include_self=True)):
        x = data[0] if isinstance(data, (tuple, list)) else data
        attempt(lambda: model(nests.part(x, 0, 1)))


def make_optimizer_variables(model: Any) -> None:
    """Make the optimizer's, so that they can be held before the first update."""
    if model.optimizer is not None:
        with model.distribute_strategy.scope():
            build_optimizer(model)
