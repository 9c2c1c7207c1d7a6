"""Networks for text, series and tables, and two with custom training."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.training.training_cases import Batches

VOCABULARY = 8000


def dense_net() -> Any:
    """Three wide layers: more weights than outputs."""
    import keras
    from keras import layers

    model = keras.Sequential([keras.Input((784,))])
    for units in (2048, 2048, 1024):
        model.add(layers.Dense(units, activation="relu"))
        model.add(layers.Dropout(0.2))
    model.add(layers.Dense(10, dtype="float32"))
    return model


def encoder(x: Any, *, depth: int, dim: int, heads: int) -> Any:
    """Transformer blocks: attention and a network four times as wide, each added and normalized."""
    from keras import layers

    for _ in range(depth):
        attended = layers.MultiHeadAttention(heads, dim // heads, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        fed = layers.Dense(dim)(layers.Dense(4 * dim, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(fed)]))
    return x


def language_model(length: int = 128, dim: int = 256) -> Any:
    """A transformer encoder whose head returns a number for every word of the vocabulary."""
    import keras
    from keras import layers

    inputs = keras.Input((length,), dtype="int32")
    x = encoder(layers.Embedding(VOCABULARY, dim)(inputs), depth=4, dim=dim, heads=8)
    return keras.Model(inputs, layers.Dense(VOCABULARY, dtype="float32")(x))


def sentences(random: np.random.Generator, count: int, length: int = 128) -> Batches:
    """Rows of words, which are also the targets."""
    words = random.integers(1, VOCABULARY, (count, length)).astype(np.int32)
    return Batches(words, words)


def vision_transformer(side: int = 96, patch: int = 8, dim: int = 192) -> Any:
    """Patches of an image as words."""
    import keras
    from keras import layers

    inputs = keras.Input((side, side, 3))
    x = layers.Conv2D(dim, patch, strides=patch)(inputs)
    x = layers.Reshape(((side // patch) ** 2, dim))(x)
    x = encoder(x, depth=6, dim=dim, heads=6)
    return keras.Model(
        inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling1D()(x))
    )


def lstm_net() -> Any:
    """A classifier of sentences: an embedding and two LSTMs."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((80,), dtype="int32"),
            layers.Embedding(20000, 128),
            layers.LSTM(128, return_sequences=True),
            layers.LSTM(128),
            layers.Dense(2, dtype="float32"),
        ]
    )


def gru_net() -> Any:
    """A classifier of series, bidirectional."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((100, 32)),
            layers.Bidirectional(layers.GRU(128, return_sequences=True)),
            layers.Bidirectional(layers.GRU(64)),
            layers.Dense(6, dtype="float32"),
        ]
    )


def recommender() -> Any:
    """A user, their earlier purchases (a bag of 20), and an item: large tables, a small network."""
    import keras
    from keras import layers

    user, thing = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")
    bag = keras.Input((20,), dtype="int32")
    users, things = layers.Embedding(100_000, 32), layers.Embedding(50_000, 32)
    parts = [layers.Flatten()(users(user)), layers.Flatten()(things(thing))]
    parts.append(layers.GlobalAveragePooling1D()(things(bag)))
    x = layers.Concatenate()(parts)
    for units in (256, 128):
        x = layers.Dense(units, activation="relu")(x)
    output = layers.Dense(1, activation="sigmoid", dtype="float32")(x)
    return keras.Model([user, thing, bag], output)


def purchases(random: np.random.Generator, count: int) -> Batches:
    """Users, items, bags of items, and whether the item was bought."""
    drawn = [(100_000, 1), (50_000, 1), (50_000, 20)]
    inputs = [random.integers(0, most, (count, each)).astype(np.int32) for most, each in drawn]
    return Batches(inputs, random.integers(0, 2, (count, 1)).astype(np.float32))


def house_net() -> Any:
    """An image and a row of a table as inputs, a class and a price as outputs."""
    import keras
    from keras import layers

    picture, facts = keras.Input((64, 64, 3)), keras.Input((32,))
    x = picture
    for filters in (32, 64, 128):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    known = layers.Dense(64, activation="relu")(layers.BatchNormalization()(facts))
    x = layers.Concatenate()([layers.Flatten()(x), known])
    x = layers.Dense(128, activation="elu")(x)
    kind = layers.Dense(5, activation="softmax", name="kind", dtype="float32")(x)
    price = layers.Dense(1, name="price", dtype="float32")(x)
    return keras.Model([picture, facts], [kind, price])


def houses(random: np.random.Generator, count: int) -> Batches:
    """Images and rows, classes and prices."""
    pictures = random.random((count, 64, 64, 3), dtype=np.float32)
    facts = random.standard_normal((count, 32), dtype=np.float32)
    prices = facts.sum(1, keepdims=True)
    return Batches([pictures, facts], [random.integers(0, 5, count), prices])


def variational() -> Any:
    """A subclassed model with its own ``train_step``: a variational autoencoder."""
    import keras
    import tensorflow as tf
    from keras import layers, ops

    class Variational(keras.Model):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            wide = [layers.Dense(1024, activation="relu") for _ in range(2)]
            self.inner = keras.Sequential([*wide, layers.Dense(2 * 64)])
            back = [layers.Dense(1024, activation="relu") for _ in range(2)]
            self.outer = keras.Sequential([*back, layers.Dense(3072, dtype="float32")])
            self.seeds = keras.random.SeedGenerator(1)

        def call(self, inputs: Any) -> Any:
            return self.outer(ops.split(self.inner(inputs), 2, axis=-1)[0])

        def train_step(self, data: Any) -> dict[str, Any]:
            wanted, _, _ = keras.utils.unpack_x_y_sample_weight(data)
            with tf.GradientTape() as tape:
                mean, log_variance = ops.split(ops.cast(self.inner(wanted), "float32"), 2, axis=-1)
                noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
                made = self.outer(mean + ops.exp(0.5 * log_variance) * noise)
                far = ops.mean(ops.sum(ops.square(made - wanted), axis=-1))
                spread = 1 + log_variance - ops.square(mean) - ops.exp(log_variance)
                loss = far - 0.5 * ops.mean(ops.sum(spread, axis=-1))
                scaled = self.optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    return Variational()


def rows_twice(random: np.random.Generator, count: int) -> Batches:
    """Rows of 3072 numbers; the model asks for no targets."""
    rows = random.random((count, 3072), dtype=np.float32)
    return Batches(rows, rows[:, :1])
