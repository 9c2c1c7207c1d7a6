"""Keras layers, recurrent ones above all, and TensorFlow's control flow, with gradients."""

from __future__ import annotations

from typing import Any

from tests.training.lazily import keras, tf
from tests.training.operation_case import Operation, gradients, layer, named, normal

_SERIES = (3, 6, 4)


def _rnn(kind: str, units: int = 5, **options: Any) -> Operation:
    """A recurrent layer on three series of six steps."""
    return layer(lambda: getattr(keras.layers, kind)(units, **options), _SERIES)


class _Masked:
    """A layer called with a mask that is padded on the right."""

    def __init__(self, kind: str) -> None:
        self._inner = getattr(keras.layers, kind)(5, return_sequences=True)
        self.trainable_variables: Any = ()

    def __call__(self, x: Any) -> Any:
        mask = tf.sequence_mask([6, 2, 5])
        result = self._inner(x, mask=mask)
        self.trainable_variables = self._inner.trainable_variables
        # Beyond a row's end cuDNN gives zeros and Keras's own loop the last output again.
        return result * tf.cast(mask, result.dtype)[:, :, None]


RECURRENT = {
    **{
        f"{kind}: {what}": _rnn(kind, **options)
        for kind in ("LSTM", "GRU")
        for what, options in {
            "defaults": {},
            "sequences": {"return_sequences": True},
            "sequences and state": {"return_sequences": True, "return_state": True},
            "backwards": {"go_backwards": True, "return_sequences": True},
            "unrolled": {"unroll": True},
            "no bias": {"use_bias": False},
        }.items()
    },
    "LSTM: recurrent dropout": _rnn("LSTM", recurrent_dropout=0.3, dropout=0.2),
    "LSTM: half": layer(
        lambda: keras.layers.LSTM(5, dtype="mixed_float16", return_sequences=True), _SERIES
    ),
    "LSTM: 65 units, 40 steps": layer(lambda: keras.layers.LSTM(65), (3, 40, 17)),
    "LSTM: one step, one unit": layer(lambda: keras.layers.LSTM(1), (1, 1, 1)),
    "LSTM: masked on the right": layer(lambda: _Masked("LSTM"), _SERIES),
    "GRU: masked on the right": layer(lambda: _Masked("GRU"), _SERIES),
}

LAYERS = {
    "multi-head attention": layer(
        lambda: keras.layers.MultiHeadAttention(3, 4), (2, 5, 6), (2, 7, 6), use_causal_mask=True
    ),
    "random flip and rotation": layer(
        lambda: keras.Sequential(
            [keras.layers.RandomFlip(seed=1), keras.layers.RandomRotation(0.2, seed=2)]
        ),
        (2, 8, 8, 3),
        training=True,
    ),
}


def _while_with_array(x: Any) -> Any:
    array = tf.TensorArray("float32", 4)

    def body(i: Any, state: Any, array: Any) -> Any:
        state = tf.tanh(state * 1.1 + x[i])
        return i + 1, state, array.write(i, state)

    _, state, array = tf.while_loop(lambda i, *_: i < 4, body, [0, x[0] * 0.0, array])
    return [state, array.stack()]


CONTROL_FLOW = {
    "while loop with a TensorArray": gradients(_while_with_array, normal((4, 5))),
    "map_fn": gradients(lambda x: tf.map_fn(lambda row: tf.cumsum(row) * row, x), normal((4, 5))),
    "scan": gradients(lambda x: tf.scan(lambda a, b: tf.tanh(a + b), x), normal((4, 5))),
    "cond": gradients(
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: tf.exp(x)), normal((4, 5))
    ),
    "switch_case": gradients(
        lambda x: tf.switch_case(
            tf.cast(tf.argmax(x[0]) % 3, "int32"), [lambda: x, lambda: x * x, lambda: tf.sin(x)]
        ),
        normal((4, 5)),
    ),
}

# Keras requests cuDNN's LSTM and GRU, which the bridge computes in another order of additions;
# with half floats each addition rounds to 1e-3.
_CUDNN = {
    name: case._replace(
        tolerance=1e-2 if "half" in name else 1e-5, reason="cuDNN's LSTM and GRU: another order"
    )
    for name, case in RECURRENT.items()
    if name.startswith(("LSTM", "GRU"))
}
LAYER_OPERATIONS = named({**RECURRENT, **_CUDNN, **LAYERS, **CONTROL_FLOW})
