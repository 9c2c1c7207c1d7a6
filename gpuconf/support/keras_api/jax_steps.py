"""Keras's own steps on JAX, as functions of the model's state and a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuconf.support.keras_api.variables import optimizer_variables


def state_and_step(
    model: Any, data: Any, *, training: bool
) -> tuple[tuple[list[Any], ...], Callable[[Any, Any], Any]]:
    """The variables in the order in which the step takes their values, and the step.

    ``data`` consists of arrays, or of objects with their shapes and types. Missing metrics and
    optimizer state are created.
    """
    weights = model.trainable_variables, model.non_trainable_variables
    if not training:
        return weights, model.predict_step
    model._symbolic_build(data_batch=data)
    state = (*weights, optimizer_variables(model.optimizer), model.metrics_variables)
    return state, model.train_step
