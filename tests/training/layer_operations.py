"""Keras layers, recurrent ones above all, and TensorFlow's control flow, with gradients."""

from __future__ import annotations

from typing import Any

from tests.training.lazily import keras, tf
from tests.training.operation_case import Operation, gradients, layer, named, normal

_SERIES = (3, 6, 4)


def _rnn(kind: str, units: int = 5, **options: Any) -> Operation:
    """A recurrent layer on three series of six steps."""
    return layer(lambda: getattr(keras.layers, kind)(units, **options), _SERIES)


def _masked(kind: str, mask: list[list[bool]]) -> Operation:
    def make() -> Any:
        recurrent = getattr(keras.layers, kind)(5, return_sequences=True)
        return _with_mask(recurrent, mask)

    return layer(make, _SERIES)


def _with_mask(inner: Any, mask: list[list[bool]]) -> Any:
    """``inner`` called with a mask, as one object with its weights."""

    class Masked:
        trainable_variables: Any = ()

        def __call__(self, x: Any) -> Any:
            result = inner(x, mask=tf.constant(mask))
            self.trainable_variables = inner.trainable_variables
            # Beyond a row's end cuDNN gives zeros and Keras's own loop the last output again.
            return result * tf.cast(tf.constant(mask), result.dtype)[:, :, None]

    return Masked()


_RIGHT_PADDED = [[True] * 6, [True] * 2 + [False] * 4, [True] * 5 + [False]]


def _both_ways(kind: str, **options: Any) -> Operation:
    return layer(
        lambda: keras.layers.Bidirectional(getattr(keras.layers, kind)(4, **options)), _SERIES
    )


def _stacked() -> Any:
    cells = [keras.layers.LSTMCell(4), keras.layers.GRUCell(3)]
    return keras.layers.RNN(cells, return_sequences=True)


RECURRENT = {
    **{
        f"{kind}: {what}": _rnn(kind, **options)
        for kind in ("LSTM", "GRU", "SimpleRNN")
        for what, options in {
            "defaults": {},
            "sequences": {"return_sequences": True},
            "sequences and state": {"return_sequences": True, "return_state": True},
            "backwards": {"go_backwards": True, "return_sequences": True},
            "unrolled": {"unroll": True},
            "no bias": {"use_bias": False},
        }.items()
    },
    "LSTM: not cuDNN's": _rnn("LSTM", use_cudnn=False),
    "LSTM: another activation": _rnn("LSTM", activation="relu"),
    "LSTM: recurrent dropout": _rnn("LSTM", recurrent_dropout=0.3, dropout=0.2),
    "GRU: reset before": _rnn("GRU", reset_after=False),
    "LSTM: half": layer(
        lambda: keras.layers.LSTM(5, dtype="mixed_float16", return_sequences=True), _SERIES
    ),
    "LSTM: 65 units, 40 steps": layer(lambda: keras.layers.LSTM(65), (3, 40, 17)),
    "LSTM: one step, one unit": layer(lambda: keras.layers.LSTM(1), (1, 1, 1)),
    "LSTM: masked on the right": _masked("LSTM", _RIGHT_PADDED),
    "GRU: masked on the right": _masked("GRU", _RIGHT_PADDED),
    "LSTM: both ways": _both_ways("LSTM"),
    "GRU: both ways, sequences": _both_ways("GRU", return_sequences=True),
    "cells stacked": layer(_stacked, _SERIES),
    "ConvLSTM 1-D": layer(lambda: keras.layers.ConvLSTM1D(3, 3), (2, 3, 8, 2)),
    "ConvLSTM 2-D": layer(
        lambda: keras.layers.ConvLSTM2D(3, 3, return_sequences=True), (2, 3, 6, 7, 2)
    ),
    "time distributed": layer(
        lambda: keras.layers.TimeDistributed(keras.layers.Conv2D(3, 2)), (2, 3, 5, 6, 2)
    ),
}

LAYERS = {
    "multi-head attention": layer(
        lambda: keras.layers.MultiHeadAttention(3, 4), (2, 5, 6), (2, 7, 6), use_causal_mask=True
    ),
    "grouped query attention": layer(
        lambda: keras.layers.GroupQueryAttention(4, 4, 2), (2, 5, 6), (2, 7, 6)
    ),
    "additive attention": layer(
        lambda: _on_a_list(keras.layers.AdditiveAttention()), (2, 5, 6), (2, 7, 6)
    ),
    "layer normalisation": layer(lambda: keras.layers.LayerNormalization(epsilon=1e-4), (4, 9)),
    "group normalisation": layer(lambda: keras.layers.GroupNormalization(2), (3, 5, 6, 4)),
    "unit normalisation": layer(lambda: keras.layers.UnitNormalization(-1), (3, 5)),
    "batch normalisation, training": layer(
        lambda: keras.layers.BatchNormalization(momentum=0.9), (3, 5, 6, 4), training=True
    ),
    "batch normalisation, half": layer(
        lambda: keras.layers.BatchNormalization(dtype="mixed_float16"), (3, 5, 6, 4), training=True
    ),
    "dropout with a seed": layer(lambda: keras.layers.Dropout(0.5, seed=3), (30, 9), training=True),
    "up-sampling, bilinear": layer(
        lambda: keras.layers.UpSampling2D(3, interpolation="bilinear"), (2, 4, 5, 3)
    ),
    "1-D transposed convolution": layer(lambda: keras.layers.Conv1DTranspose(4, 3, 2), (2, 7, 3)),
    "separable convolution 1-D": layer(lambda: keras.layers.SeparableConv1D(4, 3), (2, 9, 3)),
    "global average pool": layer(
        lambda: keras.layers.GlobalAveragePooling2D(keepdims=True), (2, 5, 6, 3)
    ),
    "random flip and rotation": layer(
        lambda: keras.Sequential(
            [keras.layers.RandomFlip(seed=1), keras.layers.RandomRotation(0.2, seed=2)]
        ),
        (2, 8, 8, 3),
        training=True,
    ),
}


def _on_a_list(inner: Any) -> Any:
    class Listed:
        trainable_variables: Any = ()

        def __call__(self, *given: Any) -> Any:
            result = inner(list(given))
            self.trainable_variables = inner.trainable_variables
            return result

    return Listed()


def _while_with_array(x: Any) -> Any:
    array = tf.TensorArray("float32", 4)

    def body(i: Any, state: Any, array: Any) -> Any:
        state = tf.tanh(state * 1.1 + x[i])
        return i + 1, state, array.write(i, state)

    _, state, array = tf.while_loop(lambda i, *_: i < 4, body, [0, x[0] * 0.0, array])
    return [state, array.stack()]


def _dynamic_while(x: Any) -> Any:
    """The number of rounds depends on the data."""
    return tf.while_loop(
        lambda y: tf.reduce_sum(y) < 40.0, lambda y: (y * 1.3 + 0.1,), (tf.abs(x),)
    )


def _autograph(x: Any) -> Any:
    total = tf.zeros([4])
    for i in tf.range(3):
        if tf.reduce_sum(x[i]) > 0:
            total += x[i] * 2
        else:
            total -= x[i]
    return total


def _with_custom_gradient(x: Any) -> Any:
    def halved(y: Any) -> Any:
        return y * y, lambda upstream: upstream * y * 0.5

    return tf.custom_gradient(halved)(x)


def _recomputed(x: Any, w: Any) -> Any:
    return tf.recompute_grad(lambda y: tf.tanh(tf.tanh(y @ w) @ tf.transpose(w)))(x)


def _jacobian(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x @ w)
    return tape.batch_jacobian(y, x)


CONTROL_FLOW = {
    "while loop with a TensorArray": gradients(_while_with_array, normal((4, 5))),
    "while loop, data decides": gradients(_dynamic_while, normal((4, 5))),
    "map_fn": gradients(lambda x: tf.map_fn(lambda row: tf.cumsum(row) * row, x), normal((4, 5))),
    "vectorized_map": gradients(
        lambda x: tf.vectorized_map(lambda row: tf.tensordot(row, row, 1) * row, x), normal((4, 5))
    ),
    "scan": gradients(lambda x: tf.scan(lambda a, b: tf.tanh(a + b), x), normal((4, 5))),
    "foldl": gradients(lambda x: tf.foldl(lambda a, b: a * 0.5 + b, x), normal((4, 5))),
    "cond": gradients(
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: tf.exp(x)), normal((4, 5))
    ),
    "switch_case": gradients(
        lambda x: tf.switch_case(
            tf.cast(tf.argmax(x[0]) % 3, "int32"), [lambda: x, lambda: x * x, lambda: tf.sin(x)]
        ),
        normal((4, 5)),
    ),
    "autograph": gradients(lambda x: tf.function(_autograph)(x * 0.9), normal((4, 4))),
    "custom gradient": gradients(_with_custom_gradient, normal((4, 5))),
    "recomputed gradient": gradients(_recomputed, normal((4, 5), (5, 6))),
    "batch Jacobian": gradients(_jacobian, normal((4, 5), (5, 3))),
}

# Keras asks for cuDNN's LSTM and GRU, which the bridge computes in another order of additions;
# with half floats each addition rounds to 1e-3.
_CUDNN = {
    name: case._replace(
        tolerance=1e-2 if "half" in name else 1e-5, reason="cuDNN's LSTM and GRU: another order"
    )
    for name, case in RECURRENT.items()
    if name.startswith(("LSTM", "GRU"))
}
LAYER_OPERATIONS = named({**RECURRENT, **_CUDNN, **LAYERS, **CONTROL_FLOW})
