"""Checks of the walk, run by ``test_walk``: what is predicted, and what TensorFlow then takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.footprint.walked_functions import (
    COUNT,
    SMALL,
    VECTOR,
    measured,
    take_one_large_region,
    vector,
    walked,
)

take_one_large_region()


def turned(x: Any) -> Any:
    """The vector from its end on: cannot be written over the input, and nothing is folded."""
    return tf.reverse(x, [0])


def takes(units: float, function: Callable[..., Any]) -> None:
    """The function of a vector takes so many units, by the walk and in truth."""
    assert walked(function, VECTOR).peak == pytest.approx(units, abs=SMALL)
    assert measured(function, vector()) == pytest.approx(units, abs=SMALL)


def check_a_reshaped_tensor_is_no_new_one() -> None:
    """Reshape, squeeze and the like give their input's memory another name."""

    def function(x: Any) -> Any:
        y = tf.reshape(turned(x), [2, -1, 1])
        return tf.reduce_sum(tf.squeeze(tf.expand_dims(tf.identity(y), 0)))

    takes(1, function)


def check_an_elementwise_result_takes_over_its_input() -> None:
    """exp, then sin, then tanh of it: one vector, written over again and again."""
    takes(1, lambda x: tf.reduce_sum(tf.tanh(tf.sin(tf.exp(x)))))


def check_nothing_takes_over_what_is_still_needed() -> None:
    """exp(x) is needed after sin(exp(x)) was computed: two vectors."""

    def function(x: Any) -> Any:
        y = tf.exp(x)
        sine = tf.sin(y)
        with tf.control_dependencies([sine]):  # or the CPU's executor may turn y around first
            late = turned(y)
        return tf.reduce_sum(sine * late)

    takes(3, function)


def check_an_operation_that_needs_its_input_to_the_end_takes_nothing_over() -> None:
    """Turned around, and again: input and output at once."""
    takes(2, lambda x: tf.reduce_sum(turned(turned(turned(x)))))


def check_the_callers_tensors_are_nobodys_to_take() -> None:
    """The batch belongs to the caller: its exp is a vector of its own."""
    takes(1, tf.exp)


def check_results_stay_to_the_end() -> None:
    """The first of two results is computed early, and lives beside the second."""

    def function(x: Any) -> Any:
        first = turned(x)
        with tf.control_dependencies([first]):
            return first, tf.reduce_sum(turned(turned(x)))

    takes(3, function)


def check_what_is_given_back_is_not_taken_over() -> None:
    """A result that is also another's input stays as it is."""

    def function(x: Any) -> Any:
        first = tf.exp(x)
        return first, tf.sin(first)

    takes(2, function)


def check_a_variable_that_is_read_is_no_copy() -> None:
    """Reading gives the variable's own memory, of which nothing is taken over."""
    kernel = tf.Variable(vector())
    takes(1, lambda x: tf.reduce_sum(x) + tf.reduce_sum(tf.exp(kernel)))
    takes(0, lambda x: tf.reduce_sum(x) + tf.reduce_sum(kernel))


def check_an_update_copies_what_somebody_still_reads() -> None:
    """A value that was read before an update, and is used after it, is the old one."""
    kernel = tf.Variable(vector())

    def function(x: Any) -> Any:
        old = kernel.read_value()
        with tf.control_dependencies([kernel.assign_add(x)]):
            return tf.reduce_sum(turned(old))

    takes(2, function)


def check_an_update_is_in_place_where_nobody_reads_any_more() -> None:
    """Used before the update: no copy."""
    kernel = tf.Variable(vector())

    def function(x: Any) -> Any:
        most = tf.reduce_sum(kernel)
        with tf.control_dependencies([most]):
            kernel.assign_add(x)
        return most

    takes(0, function)


def check_a_new_value_is_there_beside_the_old_one() -> None:
    """An assigned value is computed while the variable still has its old one."""
    kernel = tf.Variable(vector())

    def function(x: Any) -> Any:
        kernel.assign(turned(x))
        return tf.reduce_sum(x)

    takes(1, function)


def check_after_a_sparse_update_every_reading_is_a_copy() -> None:
    """Rows of a table were changed: from then on the whole table is copied to be read."""
    table = tf.Variable(tf.reshape(vector(), [-1, 4]))

    def function(x: Any) -> Any:
        rows = tf.IndexedSlices(tf.reshape(x[:4], [1, 4]), [0])
        with tf.control_dependencies([table.scatter_sub(rows)]):
            return tf.reduce_sum(table.read_value())

    takes(1, function)


def check_a_function_within_is_walked() -> None:
    """A call of another tf.function, which reads a variable of its own."""
    kernel = tf.Variable(vector())

    @tf.function(autograph=False)
    def inner(x: Any) -> Any:
        return turned(turned(x) * kernel)

    takes(2, lambda x: tf.reduce_sum(inner(turned(x))))
    names = walked(lambda x: tf.reduce_sum(inner(x)), VECTOR).names
    assert sum("PartitionedCall" in name for name in names) >= 3


def check_a_loop_is_turned_as_often_as_it_turns() -> None:
    """Ten results are collected, and stacked beside them; another loop keeps only its last."""

    def collecting(x: Any) -> Any:
        found = tf.TensorArray(tf.float32, 10, element_shape=[COUNT])
        for number in tf.range(10):
            found = found.write(number, turned(x))
        return tf.reduce_sum(found.stack())

    def replacing(x: Any) -> Any:
        for _ in tf.range(10):
            x = turned(x)
        return tf.reduce_sum(x)

    takes(20, tf.autograph.to_graph(collecting))
    takes(2, tf.autograph.to_graph(replacing))


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


def check_the_heavier_branch_is_counted() -> None:
    """Of a condition on the data: the branch that computes more."""

    def function(x: Any) -> Any:
        return tf.cond(
            tf.reduce_sum(x) > 0,
            lambda: tf.reduce_sum(turned(turned(turned(x)))),
            lambda: tf.reduce_mean(x),
        )

    takes(2, function)


def check_one_of_many_branches_is_counted() -> None:
    """``tf.switch_case``: the branch that computes most."""

    def function(x: Any) -> Any:
        branches = [
            lambda: tf.reduce_mean(x),
            lambda: tf.reduce_sum(turned(turned(x))),
            lambda: tf.reduce_sum(x),
        ]
        return tf.switch_case(tf.cast(x[0], tf.int32), branches)

    takes(2, function)


def check_what_nobody_needs_is_not_computed() -> None:
    """A result that is thrown away."""

    def function(x: Any) -> Any:
        del_me = turned(turned(x))
        assert del_me is not None
        return tf.reduce_sum(x)

    takes(0, function)
    assert not [name for name in walked(function, VECTOR).names if "ReverseV2" in name]


def check_towers_are_computed_side_by_side() -> None:
    """The executor has one queue: what became ready first runs first, whichever tower it is of."""

    def function(x: Any, y: Any) -> Any:
        for _ in range(3):
            x = turned(x)
        for _ in range(3):
            y = turned(y)
        return tf.reduce_sum(x + y)

    names = walked(function, VECTOR, VECTOR).names
    places = [0, *range(1, 6)]
    assert [
        names.index(f"ReverseV2_{n}" if n else "ReverseV2") for n in (0, 3, 1, 4, 2, 5)
    ] == places


def check_a_neutral_scalar_changes_nothing() -> None:
    """As grappler does, times one and plus zero are taken out; other scalars are not."""

    def function(x: Any) -> Any:
        return tf.reduce_sum((1.0 * turned(x) + 0.0) / 1.0 - 0.0)

    def scaling(x: Any) -> Any:
        return tf.reduce_sum(2.0 * turned(x) - 1.0)

    assert walked(function, VECTOR).names == ("ReverseV2", "Sum")
    assert len(walked(scaling, VECTOR).names) == 4


def check_a_neutral_scalar_of_another_type_changes_nothing() -> None:
    """As in silu with float16, whose beta is a float32 constant that is cast."""

    def function(x: Any) -> Any:
        x = turned(x)
        return tf.reduce_sum(turned(tf.cast(tf.constant(1.0, tf.float64), tf.float32) * x) * x)

    takes(2, function)


def check_a_reduction_of_dimensions_apart_copies_its_input() -> None:
    """Of four dimensions the second and the last, as in group normalization; not the first two."""

    def reduced(*axes: int) -> Callable[[Any], Any]:
        return lambda x: tf.reduce_mean(tf.reshape(turned(x), [64, -1, 64, 4]), axes)

    takes(2, reduced(1, 3))
    takes(1, reduced(0, 1))
    takes(1, reduced(1, 2))


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


CAPTURED = vector()


def check_sizes_that_depend_on_the_data_are_noted() -> None:
    """Taken to be as large as the input, and so is what is computed of them."""

    def function(x: Any) -> Any:
        return tf.reduce_sum(turned(tf.boolean_mask(x, x > 0)))

    found = walked(function, VECTOR)
    assert any("Where" in name for name in found.walk.unknown)
    assert found.peak >= 2
    assert measured(function, vector()) <= found.peak + SMALL


def check_a_loop_without_a_known_end_is_noted() -> None:
    """Until something is small: one turn is counted, and it says so."""

    def function(x: Any) -> Any:
        return tf.while_loop(lambda y: tf.reduce_sum(y) > 0.5, lambda y: (tf.sin(y) / 2,), (x,))

    found = walked(function, VECTOR)
    assert len(found.walk.endless) == 1
    assert found.peak <= 2


def check_a_gradient_of_ones_own_keeps_nothing_waiting() -> None:
    """Of ``tf.custom_gradient``: its IdentityN is not an operation."""

    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        return turned(x), lambda upstream: upstream * 2

    takes(1, lambda x: tf.reduce_sum(doubled(x)))


def check_of_equal_operations_one_is_left() -> None:
    """As grappler does: what is computed twice is computed once, and kept for both."""

    def function(x: Any) -> Any:
        return tf.reduce_sum(turned(x) * tf.nn.relu(turned(x)))

    names = walked(function, VECTOR).names
    assert [name for name in names if name.startswith("Reverse")] == ["ReverseV2"]
    assert walked(function, VECTOR).peak == pytest.approx(measured(function, vector()), abs=SMALL)


def check_a_chain_of_additions_is_one_sum() -> None:
    """It needs all its terms at once; one whose part somebody else needs stays two."""

    def function(x: Any) -> Any:
        return tf.reduce_sum(turned(x) + turned(turned(x)) + tf.exp(x))

    def shared(x: Any) -> Any:
        part = turned(x) + turned(turned(x))
        return tf.reduce_sum(part + tf.exp(x)) + tf.reduce_max(part)

    assert sum("add" in name for name in walked(function, VECTOR).names) == 1
    assert sum("add" in name for name in walked(shared, VECTOR).names) == 3
    assert walked(function, VECTOR).peak == pytest.approx(measured(function, vector()), abs=SMALL)
