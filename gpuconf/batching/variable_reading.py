"""Values of a model's variables, all of them at one call of TensorFlow where they are many.

A read of a variable shares its memory; TensorFlow copies at the next write, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from gpuconf.batching.step_functions import kept
from gpuconf.keras_api.variables import component

# From about so many on, one call of a function that reads them all takes less time than a read of
# each (on a CPU, TensorFlow 2.21); making it takes half a millisecond for each.
_MANY = 16

Read = Callable[[], "list[Any]"]
# What is read, by its identity, and kept so that nothing else can have the same.
Compiled = dict[tuple[int, ...], tuple["list[Any]", Read]]


class Reader:
    """Reads these variables of a model, on their device; compiled functions stay on the model."""

    def __init__(self, model: Any, variables: Iterable[Any]) -> None:
        self.variables = list(variables)
        is_eager = len(self.variables) < _MANY or getattr(model, "run_eagerly", False)
        self.read: Read = (
            partial(_one_by_one, list(map(_read_of, self.variables)))
            if is_eager
            else _compiled(model, self.variables)
        )

    def on_host(self) -> list[Any]:
        """Copies in the computer's memory, one variable after another."""
        return [_read_of(variable)().numpy() for variable in self.variables]


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
