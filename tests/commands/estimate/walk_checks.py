"""Checks of the walk, run by ``test_walk``: what is predicted, and what TensorFlow then takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.commands.estimate.walked_functions import (
    COUNT,
    SMALL,
    VECTOR,
    measured,
    take_one_large_region,
    vector,
    walked,
)

take_one_large_region()
CAPTURED = vector()
KERNEL, TABLE = tf.Variable(vector()), tf.Variable(tf.reshape(vector(), [-1, 4]))


def turned(x: Any) -> Any:
    """The vector from its end on: cannot be written over the input, and nothing is folded."""
    return tf.reverse(x, [0])


def reshaped(x: Any) -> Any:
    y = tf.reshape(turned(x), [2, -1, 1])
    return tf.reduce_sum(tf.squeeze(tf.expand_dims(tf.identity(y), 0)))


def used_later(x: Any) -> Any:
    y = tf.exp(x)
    sine = tf.sin(y)
    with tf.control_dependencies([sine]):  # or the CPU's executor may turn y around first
        late = turned(y)
    return tf.reduce_sum(sine * late)


def early_result(x: Any) -> Any:
    first = turned(x)
    with tf.control_dependencies([first]):
        return first, tf.reduce_sum(turned(turned(x)))


def result_and_input(x: Any) -> Any:
    first = tf.exp(x)
    return first, tf.sin(first)


def read_updated_used(x: Any) -> Any:
    old = KERNEL.read_value()
    with tf.control_dependencies([KERNEL.assign_add(x)]):
        return tf.reduce_sum(turned(old))


def read_used_updated(x: Any) -> Any:
    most = tf.reduce_sum(KERNEL)
    with tf.control_dependencies([most]):
        KERNEL.assign_add(x)
    return most


def assigned(x: Any) -> Any:
    KERNEL.assign(turned(x))
    return tf.reduce_sum(x)


def updated_by_rows(x: Any) -> Any:
    rows = tf.IndexedSlices(tf.reshape(x[:4], [1, 4]), [0])
    with tf.control_dependencies([TABLE.scatter_sub(rows)]):
        return tf.reduce_sum(TABLE.read_value())


@tf.function(autograph=False)
def inner(x: Any) -> Any:
    return turned(turned(x) * KERNEL)


def function_within(x: Any) -> Any:
    return tf.reduce_sum(inner(turned(x)))


def collecting(x: Any) -> Any:
    found = tf.TensorArray(tf.float32, 10, element_shape=[COUNT])
    for number in tf.range(10):
        found = found.write(number, turned(x))
    return tf.reduce_sum(found.stack())


def replacing(x: Any) -> Any:
    for _ in tf.range(10):
        x = turned(x)
    return tf.reduce_sum(x)


def on_condition(x: Any) -> Any:
    three = lambda: tf.reduce_sum(turned(turned(turned(x))))  # noqa: E731
    return tf.cond(tf.reduce_sum(x) > 0, three, lambda: tf.reduce_mean(x))


def switched(x: Any) -> Any:
    two = lambda: tf.reduce_sum(turned(turned(x)))  # noqa: E731
    branches = [lambda: tf.reduce_mean(x), two, lambda: tf.reduce_sum(x)]
    return tf.switch_case(tf.cast(x[0], tf.int32), branches)


def thrown_away(x: Any) -> Any:
    del_me = turned(turned(x))
    assert del_me is not None
    return tf.reduce_sum(x)


def cast_scalar(x: Any) -> Any:
    x = turned(x)
    return tf.reduce_sum(turned(tf.cast(tf.constant(1.0, tf.float64), tf.float32) * x) * x)


def reduced(*axes: int) -> Callable[[Any], Any]:
    return lambda x: tf.reduce_mean(tf.reshape(turned(x), [64, -1, 64, 4]), axes)


@tf.custom_gradient
def doubled(x: Any) -> Any:
    return turned(x), lambda upstream: upstream * 2


def equal_operations(x: Any) -> Any:
    return tf.reduce_sum(turned(x) * tf.nn.relu(turned(x)))


def additions(x: Any) -> Any:
    return tf.reduce_sum(turned(x) + turned(turned(x)) + tf.exp(x))


def shared_addition(x: Any) -> Any:
    part = turned(x) + turned(turned(x))
    return tf.reduce_sum(part + tf.exp(x)) + tf.reduce_max(part)


# Functions of a vector, by why they take so many units.
CASES: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "reshape, squeeze and the like give their input's memory another name": (1, reshaped),
    "elementwise results are written over their inputs": (
        1,
        lambda x: tf.reduce_sum(tf.tanh(tf.sin(tf.exp(x)))),
    ),
    "nothing takes over what is still needed": (3, used_later),
    "input and output at the same time": (2, lambda x: tf.reduce_sum(turned(turned(turned(x))))),
    "the batch belongs to the caller": (1, tf.exp),
    "an early result stays to the end": (3, early_result),
    "a result that is also an input is not written over": (2, result_and_input),
    "a variable that is read is no copy": (0, lambda x: tf.reduce_sum(x) + tf.reduce_sum(KERNEL)),
    "a variable's memory is not taken over": (
        1,
        lambda x: tf.reduce_sum(x) + tf.reduce_sum(tf.exp(KERNEL)),
    ),
    "an update copies what is still read": (2, read_updated_used),
    "an update is in place where nobody reads": (0, read_used_updated),
    "a new value is computed next to the old one": (1, assigned),
    "after a sparse update every reading is a copy": (1, updated_by_rows),
    "a function within is walked": (2, function_within),
    "a loop's results are collected, and stacked next to that": (
        20,
        tf.autograph.to_graph(collecting),
    ),
    "a loop keeps its last result": (2, tf.autograph.to_graph(replacing)),
    "of a condition on the data, the heavier branch": (2, on_condition),
    "of many branches, the heaviest": (2, switched),
    "what nobody needs is not computed": (0, thrown_away),
    "a neutral scalar of another type, as in silu with float16": (2, cast_scalar),
    "reduced dimensions that lie apart, as in group normalization, copy": (2, reduced(1, 3)),
    "the first dimensions are reduced without a copy": (1, reduced(0, 1)),
    "dimensions that adjoin are reduced without a copy": (1, reduced(1, 2)),
    "a gradient of its own keeps nothing": (1, lambda x: tf.reduce_sum(doubled(x))),
    "of equal operations one is left, and kept for both": (2, equal_operations),
    "a chain of additions needs all its terms": (3, additions),
}


@pytest.mark.parametrize(("units", "function"), CASES.values(), ids=CASES)
def check_functions_take_what_the_walk_says(units: float, function: Callable[[Any], Any]) -> None:
    """By the walk and in truth; the case's name has the reason."""
    assert walked(function, VECTOR).peak == pytest.approx(units, abs=SMALL)
    assert measured(function, vector()) == pytest.approx(units, abs=SMALL)


def check_operations_are_those_that_run() -> None:
    """Within functions; without what nobody needs, is computed twice, or is part of a sum."""

    def names(function: Callable[..., Any]) -> str:
        return " ".join(walked(function, VECTOR).names)

    assert names(function_within).count("PartitionedCall") >= 3
    assert "ReverseV2" not in names(thrown_away)
    assert names(equal_operations).count("Reverse") == 1
    assert names(additions).count("add") == 1
    assert names(shared_addition).count("add") == 3


def check_the_way_back_through_a_loop_keeps_every_turn() -> None:
    """The gradient needs what each turn has computed: collected, and taken off again."""

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(
                lambda number, _: number < 10,
                lambda number, y: (number + 1, tf.sin(y)),
                (0, x),
                parallel_iterations=1,
            )[1]
            most = tf.reduce_sum(y)
        return tf.reduce_sum(tape.gradient(most, x))

    found = walked(function, VECTOR)
    assert not found.walk.endless
    assert 10 <= found.peak <= 14
    assert measured(function, vector()) == pytest.approx(found.peak, abs=2)


def check_towers_are_computed_side_by_side() -> None:
    """The executor has one queue: what became ready first runs first, whichever tower it is of."""

    def function(x: Any, y: Any) -> Any:
        for _ in range(3):
            x = turned(x)
        for _ in range(3):
            y = turned(y)
        return tf.reduce_sum(x + y)

    names = walked(function, VECTOR, VECTOR).names
    tower = ["ReverseV2", *(f"ReverseV2_{number}" for number in range(1, 6))]
    assert [names.index(tower[number]) for number in (0, 3, 1, 4, 2, 5)] == [*range(6)]


def check_a_neutral_scalar_changes_nothing() -> None:
    """As grappler does, times one and plus zero are taken out; other scalars are not."""
    neutral = walked(lambda x: tf.reduce_sum((1.0 * turned(x) + 0.0) / 1.0 - 0.0), VECTOR)
    assert neutral.names == ("ReverseV2", "Sum")
    assert len(walked(lambda x: tf.reduce_sum(2.0 * turned(x) - 1.0), VECTOR).names) == 4


def check_constants_stay() -> None:
    """A large constant is there for the whole step; small ones are on the host."""
    table = list(range(COUNT))

    def function(x: Any) -> Any:
        return tf.reduce_sum(turned(x) * tf.constant(table, tf.float32) + tf.constant([1.0]))

    found = walked(function, VECTOR)
    assert found.sizes("constant") == [1]
    assert found.peak == pytest.approx(2, abs=SMALL)
    captured = walked(lambda x: tf.reduce_sum(x * CAPTURED), VECTOR)
    assert captured.sizes("constant") == [1]


def check_what_depends_on_the_data_is_noted() -> None:
    """A size is taken to be as large as the input; of a loop without a known end, one turn."""

    def masked(x: Any) -> Any:
        return tf.reduce_sum(turned(tf.boolean_mask(x, x > 0)))

    def endless(x: Any) -> Any:
        return tf.while_loop(lambda y: tf.reduce_sum(y) > 0.5, lambda y: (tf.sin(y) / 2,), (x,))

    found = walked(masked, VECTOR)
    assert any("Where" in name for name in found.walk.unknown)
    assert found.peak >= 2
    assert measured(masked, vector()) <= found.peak + SMALL
    found = walked(endless, VECTOR)
    assert len(found.walk.endless) == 1
    assert found.peak <= 2
