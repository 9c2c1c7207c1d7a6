"""The state that a step may change in a model, saved so that a failed step can be undone.

Reading a variable shares its memory; TensorFlow copies at the next write, if there is one.  So
holding the values costs only the memory of those that change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from gpuconf.batching.steps.step_cache import cached_step
from gpuconf.support.keras_api.variables import component, optimizer_variables

# From about this number on, one call of a function that reads all variables is faster than separate
# reads (on a CPU, TensorFlow 2.21).  Creating it takes half a millisecond per variable.
_MANY = 16

Read = Callable[[], "list[Any]"]
# The objects that are read, by identity; references keep the identities unique.
Compiled = dict[tuple[int, ...], tuple["list[Any]", Read]]


class ReadsVariables(Protocol):
    """Reads some variables of a model, and writes them."""

    variables: list[Any]

    def read(self) -> list[Any]:
        """The values on their device; later writes do not change them."""

    def on_host(self) -> list[Any]:
        """Copies in host RAM."""

    def write(self, values: Sequence[Any]) -> None:
        """Write these values into the variables."""


class HeldValues:
    """The values of a model's variables at one moment, on their device or on the host."""

    def __init__(self, reader: ReadsVariables, *, on_host: bool = False) -> None:
        self._reader = reader
        self._values = reader.on_host() if on_host else reader.read()

    def has(self, variable: Any) -> bool:
        """Whether this variable's value is held."""
        return any(variable is each for each in self._reader.variables)

    def put_back(self) -> None:
        """Restore the value of every variable."""
        self._reader.write(self._values)


class UndoableState:
    """The state that a forward pass changes, saved before each step; see `small_state`.

    ``make_reader`` returns a reader of all variables that exist at the time.
    """

    def __init__(self, model: Any, make_reader: Callable[[], ReadsVariables]) -> None:
        self._model = model
        self._make_reader = make_reader
        self._reader: ReadsVariables | None = None
        self._held: HeldValues | None = None

    def hold(self) -> None:
        """Save the current values."""
        reader = self._reader or self._make_reader()
        if self._held is not None:
            self._reader = reader  # a step has run, so all variables exist
        self._held = HeldValues(reader)

    def put_back(self) -> None:
        """Restore the saved values; reset metrics that were created since then."""
        assert self._held is not None
        self._held.put_back()
        for metric in self._model.metrics:
            if not all(self._held.has(variable) for variable in metric.variables):
                metric.reset_state()
        self._reader = self._held = None  # the failed step may not have created all variables


def small_state(model: Any) -> list[Any]:
    """The state that a forward pass changes: metrics, seeds, statistics; no trainable weights."""
    found = [*model.non_trainable_variables, *_others(model)]
    for metric in model.metrics:
        found += metric.variables
    learnt = {id(variable) for variable in model.trainable_variables}
    return [each for each in _once(found) if id(each) not in learnt and _is_numeric(each)]


def learnt_state(model: Any) -> list[Any]:
    """The state that an update changes: the weights and the optimizer's variables."""
    return list(_once([*model.trainable_variables, *optimizer_variables(model.optimizer)]))


def _others(model: Any) -> list[Any]:
    """Keras 3 lists the seeds of random layers only in ``variables``."""
    return list(getattr(model, "variables", ()))


def _once(variables: Iterable[Any]) -> Iterable[Any]:
    return {id(variable): variable for variable in variables}.values()


def _is_numeric(variable: Any) -> bool:
    import tensorflow as tf

    return tf.as_dtype(variable.dtype) not in (tf.string, tf.resource, tf.variant)


class Reader:
    """Reads these variables of a model on their device; compiled functions stay on the model."""

    def __init__(self, model: Any, variables: Iterable[Any]) -> None:
        self.variables = list(variables)
        is_eager = len(self.variables) < _MANY or getattr(model, "run_eagerly", False)
        self.read = (
            partial(_one_by_one, list(map(_read_of, self.variables)))
            if is_eager
            else _compiled(model, self.variables)
        )

    def on_host(self) -> list[Any]:
        """Copies in host RAM, one variable after another."""
        return [_read_of(variable)().numpy() for variable in self.variables]

    def write(self, values: Sequence[Any]) -> None:
        """Write these values into the variables."""
        for variable, value in zip(self.variables, values, strict=True):
            component(variable).assign(value)


def _one_by_one(reads: list[Callable[[], Any]]) -> list[Any]:
    return [read() for read in reads]


def _read_of(variable: Any) -> Callable[[], Any]:
    """Return TensorFlow's own read operation: Keras's takes four times as long."""
    import tensorflow as tf

    variable = component(variable)
    handle = getattr(variable, "handle", None)
    if handle is None:
        return partial(tf.convert_to_tensor, variable)
    dtype = tf.as_dtype(variable.dtype)  # for a name, TensorFlow takes a slower path
    return partial(tf.raw_ops.ReadVariableOp, resource=handle, dtype=dtype)


def _compiled(model: Any, variables: list[Any]) -> Read:
    import tensorflow as tf

    made: Compiled = cached_step(model, "reads", dict)
    sources = [_source_of(variable) for variable in variables]
    key = tuple(map(id, sources))
    if key not in made:
        read = partial(_one_by_one, list(map(_read_of, variables)))
        made[key] = sources, tf.function(read, autograph=False).get_concrete_function()
    return made[key][1]


def _source_of(variable: Any) -> Any:
    """The handle of the variable's value; a variable may get a new one."""
    variable = component(variable)
    return getattr(variable, "handle", variable)
