"""Operations on arrays: indices, reductions, sorting, segments, random numbers, strings."""

from __future__ import annotations

from typing import Any

from tests.training.lazily import tf
from tests.training.operation_case import SEED, gradients, integers, named, normal, values

_INDEX = [3, 1, 3, 0]  # a repeated row: gradients must add up


def _ragged() -> Any:
    return tf.RaggedTensor.from_row_lengths(tf.range(7.0) / 3, [3, 0, 4])


def _seed() -> Any:
    return [tf.constant([11, 13], "int32")]


def _stateful(function: Any) -> Any:
    """Stateful random operations need the global seed once more before each mode."""

    def run() -> Any:
        tf.random.set_seed(SEED)
        return function()

    return run


_MATRIX, _CUBE = normal((5, 7)), normal((3, 4, 5))

SHAPES = {
    "transpose, reshape, expand": gradients(
        lambda x: tf.reshape(tf.transpose(x, [2, 0, 1]), [5, -1, 1]), _CUBE
    ),
    "concat, split, stack, unstack": gradients(
        lambda x, y: [
            tf.concat([x, y], 1),
            *tf.split(x, [2, 5], 1),
            tf.stack([x, y], 1),
            tf.unstack(y)[2],
        ],
        normal((5, 7), (5, 7)),
    ),
    "strided slices": gradients(lambda x: [x[1:, ::-2, None], x[..., 2], x[-1:, 1:3]], _CUBE),
    "pad, mirror pad, tile, roll, reverse": gradients(
        lambda x: [
            tf.pad(x, [[1, 2], [0, 3]], constant_values=2),
            tf.pad(x, [[1, 1], [2, 2]], "REFLECT"),
            tf.pad(x, [[1, 1], [2, 2]], "SYMMETRIC"),
            tf.tile(x, [2, 3]),
            tf.roll(x, [1, -2], [0, 1]),
            tf.reverse(x, [1]),
            tf.broadcast_to(x[:, None], [5, 2, 7]),
        ],
        _MATRIX,
    ),
    "space to depth and to batch": gradients(
        lambda x: [
            tf.nn.space_to_depth(x, 2),
            tf.nn.depth_to_space(x, 2),
            tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]),
        ],
        normal((2, 4, 6, 4)),
    ),
    "diagonals and triangles": gradients(
        lambda x: [
            tf.linalg.diag(x),
            tf.linalg.diag_part(x[:, :5]),
            tf.linalg.band_part(x, 1, 2),
            tf.linalg.set_diag(x, tf.ones([5])),
            tf.linalg.trace(x[:, :5]),
        ],
        _MATRIX,
    ),
    "gather, by axis and in batches": gradients(
        lambda x: [
            tf.gather(x, _INDEX),
            tf.gather(x, [2, 2, 0], axis=1),
            tf.gather(x, [[0, 2], [3, 3], [1, 0], [1, 1]], batch_dims=1),
            tf.gather_nd(x, [[0, 1], [2, 3], [2, 3]]),
        ],
        normal((4, 4, 5)),
    ),
    "scatter, with repeated indices": gradients(
        lambda x, y: [
            tf.scatter_nd([[i] for i in _INDEX], y, [6, 7]),
            tf.tensor_scatter_nd_add(x, [[i] for i in _INDEX], y),
            tf.tensor_scatter_nd_sub(x, [[i] for i in _INDEX], y),
            tf.tensor_scatter_nd_update(x, [[4], [2]], y[:2]),
            tf.tensor_scatter_nd_max(x, [[4], [2]], y[:2]),
        ],
        normal((5, 7), (4, 7)),
    ),
    "where and select": gradients(
        lambda x, y: [tf.where(x > y, x, y * 2), tf.boolean_mask(x, y > 0)], normal((5, 7), (5, 7))
    ),
    "dynamic partition and stitch": gradients(
        lambda x: [
            *tf.dynamic_partition(x, [0, 1, 0, 2, 1], 3),
            tf.dynamic_stitch([[0, 2], [1, 3, 4]], [x[:2], x[2:]]),
        ],
        _MATRIX,
    ),
    "ragged tensors": gradients(
        lambda x: [
            tf.reduce_sum(tf.RaggedTensor.from_row_lengths(x, [3, 0, 2]), 1),
            tf.RaggedTensor.from_row_lengths(x, [3, 0, 2]).to_tensor(),
            tf.concat([_ragged(), _ragged()], 1).to_tensor(),
        ],
        _MATRIX,
    )._replace(on_host=True),
}

REDUCTIONS = {
    "reductions": gradients(
        lambda x: [
            f(x, axis)
            for f in (
                tf.reduce_sum,
                tf.reduce_mean,
                tf.reduce_max,
                tf.reduce_min,
                tf.reduce_prod,
                tf.reduce_logsumexp,
                tf.math.reduce_std,
                tf.math.reduce_euclidean_norm,
            )
            for axis in (None, 0, [0, 2], -1)
        ],
        _CUBE,
    ),
    "cumsum and cumprod": gradients(
        lambda x: [
            tf.cumsum(x, 1, exclusive=True),
            tf.cumsum(x, 0, reverse=True),
            tf.math.cumprod(x, 2),
            tf.math.cumulative_logsumexp(x, 1),
        ],
        _CUBE,
    ),
    "segment sums": gradients(
        lambda x: [
            f(x, [0, 0, 2, 2, 2])
            for f in (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_max)
        ],
        _MATRIX,
    ),
    "unsorted segments": gradients(
        lambda x: [
            f(x, [2, 0, 2, 1, 0], 4)
            for f in (
                tf.math.unsorted_segment_sum,
                tf.math.unsorted_segment_mean,
                tf.math.unsorted_segment_max,
                tf.math.unsorted_segment_prod,
            )
        ],
        _MATRIX,
    ),
    "top k and sort": gradients(
        lambda x: [*tf.math.top_k(x, 3), tf.sort(x, 0), tf.argsort(x, 1, "DESCENDING")], _MATRIX
    ),
    "arg max and min": values(
        lambda x: [tf.argmax(x, 1), tf.argmin(x, 0), tf.argmax(x, 2, "int32")], _CUBE
    ),
}

INTEGERS = {
    "one hot": values(lambda i: tf.one_hot(i, 6, 2.0, -1.0, axis=1), integers(8, (3, 4))),
    "where and unique": values(
        lambda i: [tf.where(i > 3), *tf.unique_with_counts(tf.reshape(i, [-1]))],
        integers(8, (5, 6)),
    ),
    "integer arithmetic": values(
        lambda i, j: [i + j * 2, i // (j + 1), i % (j + 1), tf.minimum(i, j), tf.square(i) - j],
        integers(50, (5, 6), (5, 6), dtype="int64"),
    ),
    "contrast and saturation": values(
        lambda x: [tf.image.adjust_contrast(x, 1.3), tf.image.adjust_saturation(x, 0.7)],
        normal((2, 9, 10, 3)),
    ),
    "casts": values(
        lambda x: [
            tf.cast(tf.cast(x * 10, dtype), "float32")
            for dtype in ("float16", "bfloat16", "float64", "int64", "uint8", "int8", "bool")
        ],
        _MATRIX,
    ),
    "non-maximum suppression": values(
        lambda x: tf.image.non_max_suppression(tf.abs(x[:, :4]), x[:, 4], 3, 0.1), normal((20, 5))
    )._replace(on_host=True),
}

RANDOM = {
    "stateless random": values(
        lambda seed: [
            tf.random.stateless_uniform([700], seed),
            tf.random.stateless_normal([701], seed),
            tf.random.stateless_truncated_normal([70, 10], seed),
            tf.random.stateless_uniform([70], seed, 0, 90, "int32"),
            tf.random.stateless_normal([70], seed, dtype="float16"),
        ],
        _seed,
    ),
    "stateless categorical, shuffle": values(
        lambda seed: [
            tf.random.stateless_categorical(tf.zeros([2, 5]), 30, seed),
            tf.random.experimental.stateless_shuffle(tf.range(50.0), seed),
        ],
        _seed,
    )._replace(on_host=True),
    "stateful random": values(
        _stateful(
            lambda: [
                tf.random.uniform([700]),
                tf.random.normal([70, 11]),
                tf.random.truncated_normal([333]),
                tf.random.uniform([50], 0, 1000, "int32"),
                tf.random.categorical(tf.zeros([2, 5]), 30),
            ]
        ),
        list,
    ),
}


def _table() -> Any:
    keys = tf.constant(["a", "b", "c"])
    start = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([5.0, 6.0, 7.0]))
    return tf.lookup.StaticHashTable(start, -1.0)


def _lookup() -> dict[str, Any]:
    """A table of strings stays on the host, what is computed from it does not."""
    found = _table().lookup(tf.constant(["c", "x", "a"]))
    return {"found": found, "doubled": found * 2, "words": tf.strings.upper(["ab", "c"]).numpy()}


HOST = {"lookup tables and strings": values(_lookup, list)._replace(run=_lookup, on_host=True)}

ARRAY_OPERATIONS = named({**SHAPES, **REDUCTIONS, **INTEGERS, **RANDOM, **HOST})
