"""What a case of the operation table is, and how its function is run: eagerly and in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.training.lazily import keras, tf

SEED = 7
Outputs = Mapping[str, Any]


class Operation(NamedTuple):
    """A comparison: ``run`` computes named tensors, alike on every device.

    ``tolerance`` is relative to the largest value of each array, 0 for equal bits; whatever has
    one says why in ``reason``.  ``on_host`` marks what stays on the host on a real GPU too:
    strings, tables, operations that have no GPU kernel.
    """

    name: str
    run: Callable[[], Outputs]
    tolerance: float = 0.0
    reason: str = ""
    on_host: bool = False


def normal(*shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[], list[Any]]:
    """Normally distributed inputs, the same at each call."""

    def make() -> list[Any]:
        random = np.random.default_rng(SEED)
        return [tf.constant(random.standard_normal(shape), dtype=dtype) for shape in shapes]

    return make


def integers(high: int, *shapes: tuple[int, ...], dtype: str = "int32") -> Callable[[], list[Any]]:
    """Integers from 0 to ``high`` - 1, the same at each call."""

    def make() -> list[Any]:
        random = np.random.default_rng(SEED)
        return [tf.constant(random.integers(0, high, shape), dtype=dtype) for shape in shapes]

    return make


def gradients(function: Callable[..., Any], inputs: Callable[[], list[Any]]) -> Operation:
    """A case without a name yet: outputs and gradients to every float input, in both modes."""

    def run() -> Outputs:
        return _in_both_modes(lambda *given: _differentiate(function, given), inputs())

    return Operation("", run)


def values(function: Callable[..., Any], inputs: Callable[[], list[Any]]) -> Operation:
    """A case without a name yet: outputs only, in both modes."""

    def run() -> Outputs:
        def compute(*given: Any) -> dict[str, Any]:
            return _named("output", function(*given))

        return _in_both_modes(compute, inputs())

    return Operation("", run)


def layer(make: Callable[[], Any], *shapes: tuple[int, ...], **call: Any) -> Operation:
    """A case without a name yet: a Keras layer, its gradients to inputs and weights.

    Built inside, eagerly, with a fixed seed; ``call`` goes to the call of the layer.
    """

    def run() -> Outputs:
        keras.utils.set_random_seed(SEED)
        made = make()
        inputs = normal(*shapes)()
        made(*inputs, **call)  # builds it

        def compute(*given: Any) -> dict[str, Any]:
            weights = [_tensor(variable) for variable in made.trainable_variables]
            return _differentiate(lambda *each: made(*each, **call), given, weights)

        return _in_both_modes(compute, inputs)

    return Operation("", run)


def named(cases: Mapping[str, Operation]) -> tuple[Operation, ...]:
    """The cases of a table, each with its key for a name."""
    return tuple(case._replace(name=name) for name, case in cases.items())


def flat(outputs: Any) -> Iterator[Any]:
    """The tensors of any structure; ragged and sparse ones as their parts."""
    for each in tf.nest.flatten(outputs, expand_composites=True):
        if each is not None:
            yield each


def _in_both_modes(compute: Callable[..., Outputs], inputs: Sequence[Any]) -> Outputs:
    eager = compute(*inputs)
    # Without autograph: no case branches in Python, and to look for that takes an eighth of all.
    graph = tf.function(compute, autograph=False)(*inputs)
    return {
        **{f"eager {name}": tensor for name, tensor in eager.items()},
        **{f"graph {name}": tensor for name, tensor in graph.items()},
    }


def _differentiate(
    function: Callable[..., Any], inputs: Sequence[Any], weights: Sequence[Any] = ()
) -> dict[str, Any]:
    """Outputs, and gradients with another weight for each element of the outputs."""
    watched = [each for each in inputs if each.dtype.is_floating or each.dtype.is_complex]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = list(flat(function(*inputs)))
    sources = [*watched, *weights]
    floats = [each for each in outputs if each.dtype.is_floating or each.dtype.is_complex]
    found = tape.gradient(floats, sources, output_gradients=[_weights(each) for each in floats])
    dense = [None if each is None else tf.convert_to_tensor(each) for each in found]
    return {**_named("output", outputs), **_named("gradient", dense)}


def _weights(output: Any) -> Any:
    """Weights between -1 and 1 for the elements of ``output``: no gradient is anyway."""
    numbers = tf.cast(tf.range(tf.size(output)) % 61, "float32")
    return tf.cast(tf.reshape(tf.cos(numbers), tf.shape(output)), output.dtype)


def _named(kind: str, structure: Any) -> dict[str, Any]:
    return {f"{kind} {number}": tensor for number, tensor in enumerate(flat(structure))}


def _tensor(variable: Any) -> Any:
    """The tf.Variable of a Keras 3 variable, or the Keras 2 variable, which is one."""
    value = getattr(variable, "value", variable)
    return variable if callable(value) else value
