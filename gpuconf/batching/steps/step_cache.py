"""Compiled steps of a model, kept for its next call: tracing takes seconds.

All variables are created before the first step, so that a step's changes can be undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpuconf.batching.failures import attempt
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.compiled import compiled_parts, loss_tracker
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.variables import build_optimizer

Made = TypeVar("Made")

_ON_MODEL = "_gpuconf_steps"


class _StepCache:
    """The kept objects, and the state that they were traced with."""

    def __init__(self, traced_with: list[Any]) -> None:
        self.traced_with = traced_with
        self.made: dict[str, Any] = {}


def cached_step(model: Any, name: str, make: Callable[[], Made]) -> Made:
    """Return the result of ``make`` for this model, rebuilt if the traced state has changed.

    It is stored on the model and lives as long as the model does: it references the model, so none
    of our tables may hold it.
    """
    now = _traced_with(model)
    there = vars(model).get(_ON_MODEL)
    if there is None or not _are_same(there.traced_with, now):
        # Bypasses setattr, with which Keras would track it.
        there = vars(model)[_ON_MODEL] = _StepCache(now)
    if name not in there.made:
        there.made[name] = make()
    found: Made = there.made[name]
    return found


def _traced_with(model: Any) -> list[Any]:
    """Everything that a trace depends on; objects are compared by identity."""
    return [
        model,
        getattr(model, "optimizer", None),
        *compiled_parts(model),
        loss_tracker(model),
        bool(model.run_eagerly),
        bool(getattr(model, "jit_compile", False)),
        tuple(map(id, _trainable(model))),
    ]


def _trainable(model: Any) -> list[Any]:
    try:
        return list(model.trainable_variables)
    except ValueError:  # Keras 2, for a model that has none yet
        return []


def _are_same(before: list[Any], now: list[Any]) -> bool:
    return all(
        one == other if isinstance(one, (bool, tuple)) else one is other
        for one, other in zip(before, now, strict=True)
    )


def make_variables(model: Any, step: Any, data: Any) -> None:
    """Create the variables of the metrics and of a model without input shapes; computes nothing.

    Keras creates them while it traces its first step, so the step is traced. A step that runs
    eagerly has no trace; in that case, the model is called with one sample, as for a prediction.
    """
    if hasattr(step, "get_concrete_function"):
        attempt(lambda: step.get_concrete_function(data))
    elif not all(layer.built for layer in layers_of(model, include_self=True)):
        x = data[0] if isinstance(data, (tuple, list)) else data
        attempt(lambda: model(nests.part(x, 0, 1)))


def make_optimizer_variables(model: Any) -> None:
    """Create the optimizer's variables, so that they can be saved before the first update."""
    if model.optimizer is not None:
        with model.distribute_strategy.scope():
            build_optimizer(model)
