"""What a step may change in a model, so that a step that failed can be undone.

A read of a variable shares its memory; TensorFlow copies at the next write, if there is one.  So
holding values costs no more than what changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from gpuconf.batching.steps.kept import kept
from gpuconf.keras_api.variables import component, optimizer_variables

# From about so many on, one call of a function that reads them all takes less time than a read of
# each (on a CPU, TensorFlow 2.21); making it takes half a millisecond for each.
_MANY = 16

Read = Callable[[], "list[Any]"]
# What is read, by its identity, and kept so that nothing else can have the same.
Compiled = dict[tuple[int, ...], tuple["list[Any]", Read]]


class ReadsVariables(Protocol):
    """Reads some variables of a model, and writes them."""

    variables: list[Any]

    def read(self) -> list[Any]:
        """The values on their device, which later writes leave alone."""

    def on_host(self) -> list[Any]:
        """Copies in the host's RAM."""

    def write(self, values: Sequence[Any]) -> None:
        """Give the variables these values."""


class HeldValues:
    """The values of a model's variables at one moment, on their device, or on the host."""

    def __init__(self, reader: ReadsVariables, *, on_host: bool = False) -> None:
        self._reader = reader
        self._values = reader.on_host() if on_host else reader.read()

    def has(self, variable: Any) -> bool:
        """Whether the value of this variable is held."""
        return any(variable is each for each in self._reader.variables)

    def put_back(self) -> None:
        """Give every variable the value that it had."""
        self._reader.write(self._values)


class UndoableState:
    """What computing forwards changes in a model, held again and again: see `small_state`.

    ``make_reader`` gives what reads all of it that there is by then.
    """

    def __init__(self, model: Any, make_reader: Callable[[], ReadsVariables]) -> None:
        self._model = model
        self._make_reader = make_reader
        self._reader: ReadsVariables | None = None
        self._held: HeldValues | None = None

    def hold(self) -> None:
        """Note the values as they are now."""
        reader = self._reader or self._make_reader()
        if self._held is not None:
            self._reader = reader  # a step has run, so there will be no more variables
        self._held = HeldValues(reader)

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


class Reader:
    """Reads these variables of a model, on their device; compiled functions stay on the model."""

    def __init__(self, model: Any, variables: Iterable[Any]) -> None:
        self.variables = list(variables)
        is_eager = len(self.variables) < _MANY or getattr(model, "run_eagerly", False)
        self.read = (
            partial(_one_by_one, list(map(_read_of, self.variables)))
            if is_eager
            else _compiled(model, self.variables)
        )

    def on_host(self) -> list[Any]:
        """Copies in the host's RAM, one variable after another."""
        return [_read_of(variable)().numpy() for variable in self.variables]

    def write(self, values: Sequence[Any]) -> None:
        """Give the variables these values."""
        for variable, value in zip(self.variables, values, strict=True):
            component(variable).assign(value)


def _one_by_one(reads: list[Callable[[], Any]]) -> list[Any]:
    return [read() for read in reads]


def _read_of(variable: Any) -> Callable[[], Any]:
    """TensorFlow's own operation: Keras's way takes four times as long."""
    import tensorflow as tf

    variable = component(variable)
    handle = getattr(variable, "handle", None)
    if handle is None:
        return partial(tf.convert_to_tensor, variable)
    dtype = tf.as_dtype(variable.dtype)  # of a name, TensorFlow takes a slower path
    return partial(tf.raw_ops.ReadVariableOp, resource=handle, dtype=dtype)


def _compiled(model: Any, variables: list[Any]) -> Read:
    import tensorflow as tf

    made: Compiled = kept(model, "reads", dict)
    sources = [_source_of(variable) for variable in variables]
    key = tuple(map(id, sources))
    if key not in made:
        read = partial(_one_by_one, list(map(_read_of, variables)))
        made[key] = sources, tf.function(read, autograph=False).get_concrete_function()
    return made[key][1]


def _source_of(variable: Any) -> Any:
    """Where its value lies; a variable may get another one."""
    variable = component(variable)
    return getattr(variable, "handle", variable)
