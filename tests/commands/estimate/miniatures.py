"""Small Keras models of all kinds, for checks that run inside TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops


def convnet() -> Any:
    """Convolutions, normalisation, random numbers."""
    return keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.RandomFlip(),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ]
    )


def words() -> Any:
    """A table of words, looked up and read in both directions."""
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(100, 8),
            layers.Bidirectional(layers.LSTM(4)),
            layers.Dense(4, activation="softmax"),
        ]
    )


def attention() -> Any:
    """Attention and a skip."""
    inputs = keras.Input((6, 8))
    seen = layers.MultiHeadAttention(2, 4, dropout=0.1)(inputs, inputs)
    seen = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(inputs + seen))
    return keras.Model(inputs, layers.Dense(4, activation="softmax")(seen))


class Wide(keras.Model):
    """A subclassed model."""

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.Dense(16, activation="relu", name="first")
        self.second = layers.Dense(4, name="second")

    def call(self, inputs: Any) -> Any:
        return self.second(self.first(inputs))


class Coder(keras.Model):
    """A model with a step of its own, which takes inputs alone, and metrics of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(8, name="dense")
        self.lost = keras.metrics.Mean(name="lost")

    @property
    def metrics(self) -> list[Any]:
        return [self.lost]

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            lost = ops.mean(ops.square(self(data) - data))
        gradients = tape.gradient(lost, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.lost.update_state(lost)
        return {"lost": self.lost.result()}


class Rivals(keras.Model):
    """Two models and two optimizers, and no call: as examples of GANs have it."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = keras.Sequential([keras.Input((4,)), layers.Dense(16)], name="maker")
        self.judge = keras.Sequential([keras.Input((16,)), layers.Dense(1)], name="judge")

    def compile(self, of_maker: Any, of_judge: Any) -> None:
        super().compile()
        self.of_maker, self.of_judge = of_maker, of_judge

    def train_step(self, data: Any) -> dict[str, Any]:
        noise = keras.random.normal((ops.shape(data)[0], 4), seed=1)
        with tf.GradientTape(persistent=True) as tape:
            found = ops.mean(self.judge(self.maker(noise)))
            judged = ops.mean(self.judge(data)) - found
        for model, optimizer, lost in (
            (self.maker, self.of_maker, found),
            (self.judge, self.of_judge, judged),
        ):
            optimizer.apply(tape.gradient(lost, model.trainable_weights), model.trainable_weights)
        return {"lost": judged}
