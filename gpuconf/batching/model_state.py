"""What a step may change in a model, so that a step that failed can be undone.

Values that are held share the variables' memory; TensorFlow copies at the next write, if there is
one.  So holding them costs no more than what changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuconf.batching.variable_reading import Reader
from gpuconf.keras_api.variables import component, optimizer_variables


class Held:
    """The values of a model's variables at one moment, on their device, or on the host."""

    def __init__(self, reader: Reader, *, on_host: bool = False) -> None:
        self._variables = reader.variables
        self._values = reader.on_host() if on_host else reader.read()

    def has(self, variable: Any) -> bool:
        """Whether the value of this variable is held."""
        return any(variable is each for each in self._variables)

    def put_back(self) -> None:
        """Give every variable the value that it had."""
        for variable, value in zip(self._variables, self._values, strict=True):
            component(variable).assign(value)


class UndoableState:
    """What computing forwards changes in a model, held again and again: see `small_state`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._reader: Reader | None = None
        self._held: Held | None = None

    def hold(self) -> None:
        """Note the values as they are now."""
        reader = self._reader or Reader(self._model, small_state(self._model))
        if self._held is not None:
            self._reader = reader  # a step has run, so there will be no more variables
        self._held = Held(reader)

    def put_back(self) -> None:
        """Undo what has changed since; a metric that is new since then begins anew."""
        assert self._held is not None
        self._held.put_back()
        for metric in self._model.metrics:
            if not all(self._held.has(variable) for variable in metric.variables):
                metric.reset_state()
        self._reader = self._held = None  # the step that failed may not have made all of them


def small_state(model: Any) -> list[Any]:
    """What computing forwards changes: metrics, seeds, statistics; not what is learnt."""
    found = [*model.non_trainable_variables, *_others(model)]
    for metric in model.metrics:
        found += metric.variables
    learnt = {id(variable) for variable in model.trainable_variables}
    return [each for each in _once(found) if id(each) not in learnt and _is_numeric(each)]


def learnt_state(model: Any) -> list[Any]:
    """What an update changes: the weights, and all that the optimizer has."""
    return list(_once([*model.trainable_variables, *optimizer_variables(model.optimizer)]))


def _others(model: Any) -> list[Any]:
    """Keras 3 lists the seeds of random layers among ``variables`` alone."""
    return list(getattr(model, "variables", ()))


def _once(variables: Iterable[Any]) -> Iterable[Any]:
    return {id(variable): variable for variable in variables}.values()


def _is_numeric(variable: Any) -> bool:
    import tensorflow as tf

    return tf.as_dtype(variable.dtype) not in (tf.string, tf.resource, tf.variant)
