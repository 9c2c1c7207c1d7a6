"""Networks for tables, graphs, points and equations; many weights, few outputs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops, regularizers

_USERS, _THINGS = 400_000, 150_000


def dense_net() -> Any:
    """Three wide layers: more weights than outputs."""
    model = keras.Sequential([keras.Input((784,))])
    for units in (2048, 2048, 1024):
        model.add(layers.Dense(units, activation="relu"))
        model.add(layers.Dropout(0.2))
    model.add(layers.Dense(10, dtype="float32"))
    return model


def recommender() -> Any:
    """A user, their earlier purchases (a bag of 20), and an item: large tables, a small network."""
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


def variational() -> Any:
    """A subclassed model with its own ``train_step``: a variational autoencoder."""

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


def two_towers() -> Any:
    """A tower for users, one for items, and their product: a recommender's first stage."""

    def tower(number: Any, count: int) -> Any:
        x = layers.Flatten()(layers.Embedding(count, 64)(number))
        return layers.Dense(64)(layers.Dense(256, activation="relu")(x))

    user, thing = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")
    near = layers.Dot(axes=-1)([tower(user, _USERS), tower(thing, _THINGS)])
    likes = layers.Activation("sigmoid", dtype="float32")(near)
    return keras.Model([user, thing], likes)


def click_model(tables: int = 12, rows: int = 20_000, dim: int = 32) -> Any:
    """Many embedding tables and a row of numbers; all pairs of embeddings are multiplied."""

    class Pairs(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, stacked: Any) -> Any:
            products = ops.matmul(stacked, ops.transpose(stacked, (0, 2, 1)))
            return ops.reshape(products, (-1, (tables + 1) ** 2))

    numbers, kinds = keras.Input((13,)), keras.Input((tables,), dtype="int32")
    x = layers.Dense(dim)(layers.Dense(512, activation="relu")(numbers))
    columns = [kinds[:, number : number + 1] for number in range(tables)]
    parts = [layers.Embedding(rows, dim)(column) for column in columns]
    parts.append(layers.Reshape((1, dim))(x))
    paired = Pairs()(layers.Concatenate(axis=1)(parts))
    y = layers.Concatenate()([x, paired])
    for units in (512, 256):
        y = layers.Dense(units, activation="relu")(y)
    click = layers.Dense(1, activation="sigmoid", dtype="float32")(y)
    return keras.Model([numbers, kinds], click)


def wide_and_deep() -> Any:
    """A linear part and a deep part side by side, with batch normalization."""
    inputs = keras.Input((800,))
    x = inputs
    for _ in range(3):
        x = layers.Activation("relu")(layers.BatchNormalization()(layers.Dense(1024)(x)))
        x = layers.Dropout(0.3)(x)
    both = layers.Concatenate()([layers.Dense(3)(inputs), x])
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(both))


def large_dense(initializer: str, units: int = 4096) -> Any:
    """One weight of 64 MiB, initialized by ``initializer``."""
    inputs = keras.Input((units,))
    x = layers.Dense(units, activation="relu", kernel_initializer=initializer)(inputs)
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(x))


def large_embedding(initializer: str = "uniform") -> Any:
    """An embedding of 150 MiB and little else."""
    words = keras.Input((24,), dtype="int32")
    x = layers.Embedding(400_000, 96, embeddings_initializer=initializer)(words)
    return keras.Model(words, layers.Dense(3, dtype="float32")(layers.GlobalAveragePooling1D()(x)))


def large_lstm() -> Any:
    """An LSTM whose weights are many times its outputs; its recurrent kernel is orthogonal."""
    inputs = keras.Input((20, 512))
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(layers.LSTM(1536)(inputs)))


def dense_autoencoder() -> Any:
    """Rows of 8000 numbers compressed to 32."""
    inputs = keras.Input((8000,))
    x = inputs
    for units in (2048, 512, 32, 512, 2048):
        x = layers.Dense(units, activation="selu", kernel_initializer="lecun_normal")(x)
    return keras.Model(inputs, layers.Dense(8000, dtype="float32")(x))


def many_heads() -> Any:
    """One trunk and five outputs."""
    inputs = keras.Input((512,))
    x = layers.Dense(2048, activation="gelu")(inputs)
    x = layers.LayerNormalization()(layers.Dense(1024, activation="gelu")(x))
    outputs = []
    for number in range(5):
        head = layers.Dense(256, activation="relu")(x)
        outputs.append(layers.Dense(1, name=f"head_{number}", dtype="float32")(head))
    return keras.Model(inputs, outputs)


def graph_network(nodes: int = 64, features: int = 48) -> Any:
    """Neighbors' features are summed through a dense adjacency matrix."""

    class Spread(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, both: Any) -> Any:
            known, x = both
            return ops.matmul(known, x) / (1.0 + ops.sum(known, axis=-1, keepdims=True))

    x = features_in = keras.Input((nodes, features))
    known = keras.Input((nodes, nodes))
    for units in (256, 256, 128):
        x = layers.Dense(units, activation="relu")(Spread()([known, x]))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model([features_in, known], layers.Dense(3, dtype="float32")(x))


def point_cloud(points: int = 512) -> Any:
    """Points in space: each is processed alone, then max-pooled."""
    inputs = keras.Input((points, 3))
    x = inputs
    for filters in (64, 128, 512):
        x = layers.BatchNormalization(momentum=0.0)(layers.Conv1D(filters, 1)(x))
        x = layers.Activation("relu")(x)
    x = layers.GlobalMaxPooling1D()(x)
    for units in (256, 128):
        x = layers.Dropout(0.3)(layers.Dense(units, activation="relu")(x))
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(x))


def radiance_field(waves: int = 8) -> Any:
    """Positions as sines and cosines, eight dense layers, a color."""

    class Waves(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, place: Any) -> Any:
            parts = [place]
            for power in range(waves):
                parts += [ops.sin(2.0**power * place), ops.cos(2.0**power * place)]
            return ops.concatenate(parts, axis=-1)

    inputs = keras.Input((3,))
    x = encoded = Waves()(inputs)
    for number in range(8):
        x = layers.Dense(192, activation="relu")(x)
        if number == 3:
            x = layers.Concatenate()([x, encoded])
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(x))


def expert_mixture(experts: int = 4) -> Any:
    """Several networks for each row, weighted by a gate; the weights are regularized."""
    inputs = keras.Input((256,))
    gate = layers.Dense(experts, activation="softmax")(inputs)
    parts = []
    for number in range(experts):
        x = layers.Dense(768, activation="relu", kernel_regularizer=regularizers.L2(1e-4))(inputs)
        weight = layers.Lambda(lambda g, n=number: g[:, n : n + 1], output_shape=(1,))(gate)
        parts.append(layers.Multiply()([layers.Dense(256)(x), weight]))
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(layers.Add()(parts)))


def double_branch() -> Any:
    """A branch in float64 next to one in float32, as in physics."""
    inputs = keras.Input((128,))
    exact = inputs
    for _ in range(2):
        exact = layers.Dense(512, activation="tanh", dtype="float64")(exact)
    fast = layers.Dense(512, activation="relu")(layers.Dense(512, activation="relu")(inputs))
    both = layers.Concatenate(dtype="float32")([exact, fast])
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(both))


def penalized() -> Any:
    """A custom ``train_step``: the gradient with respect to the inputs is part of the loss."""

    class Penalized(keras.Model):  # type: ignore[misc]  # Keras has no types
        def train_step(self, data: Any) -> dict[str, Any]:
            rows, wanted, _ = keras.utils.unpack_x_y_sample_weight(data)
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    inner.watch(rows)
                    answer = self(rows, training=True)
                slope = inner.gradient(answer, rows)
                loss = self.compute_loss(x=rows, y=wanted, y_pred=answer)
                loss += ops.mean(ops.square(ops.sqrt(ops.sum(slope**2, axis=-1) + 1e-6) - 1.0))
            gradients = outer.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    inputs = keras.Input((128,))
    x = inputs
    for _ in range(4):
        x = layers.Dense(512, activation="softplus")(x)
    return Penalized(inputs, layers.Dense(1, dtype="float32")(x))
