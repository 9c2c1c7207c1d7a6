"""Networks that make images, or compare them with others and with texts."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops


def autoencoder() -> Any:
    """Strided convolutions down to 256 numbers and back up to the plot."""
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for filters in (32, 64, 128):
        x = layers.Conv2D(filters, 3, strides=2, padding="same")(x)
        x = layers.LeakyReLU()(x)
    x = layers.Dense(256, name="code")(layers.Flatten()(x))
    x = layers.Reshape((8, 8, 128))(layers.Dense(8 * 8 * 128)(x))
    for filters in (128, 64, 32):
        x = layers.Conv2DTranspose(filters, 3, strides=2, padding="same")(x)
        x = layers.LeakyReLU()(x)
    return keras.Model(inputs, layers.Conv2D(3, 3, padding="same", dtype="float32")(x))


def conv_lstm_net() -> Any:
    """Predict an image from the 10 before it."""
    inputs = keras.Input((10, 32, 32, 1))
    x = layers.ConvLSTM2D(16, 3, padding="same", return_sequences=True)(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.ConvLSTM2D(16, 3, padding="same")(x)
    return keras.Model(inputs, layers.Conv2D(1, 3, padding="same", dtype="float32")(x))


def super_resolution(side: int = 64, factor: int = 2) -> Any:
    """Residual convolutions, then channels become pixels."""

    class ToPixels(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, x: Any) -> Any:
            return tf.nn.depth_to_space(x, factor)

        def compute_output_shape(self, shape: Any) -> Any:
            return (shape[0], shape[1] * factor, shape[2] * factor, shape[3] // factor**2)

    inputs = keras.Input((side, side, 3))
    x = kept = layers.Conv2D(48, 3, padding="same")(inputs)
    for _ in range(5):
        y = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
        x = layers.Add()([x, layers.Conv2D(48, 3, padding="same")(y)])
    x = layers.Add()([kept, x])
    x = ToPixels()(layers.Conv2D(48 * factor**2, 3, padding="same")(x))
    return keras.Model(inputs, layers.Conv2D(3, 3, padding="same", dtype="float32")(x))


def generator(latent: int = 128) -> Any:
    """Noise becomes an image through transposed convolutions."""
    model = keras.Sequential([keras.Input((latent,)), layers.Dense(4 * 4 * 512, use_bias=False)])
    model.add(layers.Reshape((4, 4, 512)))
    for filters in (256, 128, 64, 32):
        model.add(layers.Conv2DTranspose(filters, 4, strides=2, padding="same", use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.LeakyReLU(0.2))
    model.add(layers.Conv2D(3, 5, padding="same", activation="tanh", dtype="float32"))
    return model


def discriminator(side: int = 64) -> Any:
    """Strided convolutions with spectral normalization that classify an image as real or not."""
    model = keras.Sequential([keras.Input((side, side, 3))])
    for filters in (64, 128, 256):
        convolution = layers.Conv2D(filters, 4, strides=2, padding="same")
        model.add(layers.SpectralNormalization(convolution))
        model.add(layers.LeakyReLU(0.2))
    model.add(layers.Flatten())
    model.add(layers.Dense(1, activation="sigmoid", dtype="float32"))
    return model


def diffusion_unet(side: int = 32, base: int = 64) -> Any:
    """A noisy image and its time in, the noise out: residual blocks and attention."""

    class TimeWaves(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, time: Any) -> Any:
            speeds = ops.exp(ops.linspace(0.0, 7.0, base // 2))
            angles = ops.cast(time, "float32") * ops.cast(speeds, "float32")
            return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)

    def block(x: Any, filters: int) -> Any:
        kept = x if x.shape[-1] == filters else layers.Conv2D(filters, 1)(x)
        x = layers.Conv2D(filters, 3, padding="same")(layers.GroupNormalization(8)(x))
        x = layers.Activation("swish")(x)
        x = layers.Add()([x, layers.Reshape((1, 1, filters))(layers.Dense(filters)(known))])
        return layers.Add()([kept, layers.Conv2D(filters, 3, padding="same")(x)])

    def attend(x: Any) -> Any:
        _, height, width, channels = x.shape
        y = layers.Reshape((height * width, channels))(layers.GroupNormalization(8)(x))
        y = layers.MultiHeadAttention(4, channels // 4)(y, y)
        return layers.Add()([x, layers.Reshape((height, width, channels))(y)])

    picture, time = keras.Input((side, side, 3)), keras.Input((1,))
    known = layers.Dense(4 * base, activation="swish")(TimeWaves()(time))
    x = first = block(layers.Conv2D(base, 3, padding="same")(picture), base)
    x = second = block(layers.AveragePooling2D(2)(x), 2 * base)
    x = attend(block(layers.AveragePooling2D(2)(x), 2 * base))
    for kept, filters in ((second, 2 * base), (first, base)):
        x = block(layers.Concatenate()([layers.UpSampling2D(2)(x), kept]), filters)
    noise = layers.Conv2D(3, 3, padding="same", dtype="float32")(layers.GroupNormalization(8)(x))
    return keras.Model([picture, time], noise)


def convolutional_vae(side: int = 64, latent: int = 64) -> Any:
    """A variational autoencoder for images whose sampling layer adds its KL loss."""

    class Sampling(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.seeds = keras.random.SeedGenerator(3)

        def call(self, both: Any) -> Any:
            mean, log_variance = both
            spread = 1 + log_variance - ops.square(mean) - ops.exp(log_variance)
            self.add_loss(-0.5 * ops.mean(ops.cast(spread, "float32")))
            noise = keras.random.normal(ops.shape(mean), dtype=mean.dtype, seed=self.seeds)
            return mean + ops.exp(0.5 * log_variance) * noise

    inputs = keras.Input((side, side, 3))
    x = inputs
    for filters in (32, 64, 128):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = Sampling()([layers.Dense(latent)(x), layers.Dense(latent)(x)])
    x = layers.Reshape((side // 8, side // 8, 128))(layers.Dense(side // 8 * side // 8 * 128)(x))
    for filters in (128, 64, 32):
        x = layers.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu")(x)
    outputs = layers.Conv2D(3, 3, padding="same", activation="sigmoid", dtype="float32")(x)
    return keras.Model(inputs, outputs)


def _tower(side: int, dim: int) -> Any:
    tower = keras.Sequential([keras.Input((side, side, 3))])
    for filters in (32, 64, 128):
        tower.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
        tower.add(layers.MaxPooling2D())
    tower.add(layers.Flatten())
    tower.add(layers.Dense(dim))
    tower.add(layers.UnitNormalization())
    return tower


def siamese_pictures(side: int = 64) -> Any:
    """Two images through the same layers: do they show the same thing?"""

    class Distance(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, both: Any) -> Any:
            return ops.sqrt(ops.sum(ops.square(both[0] - both[1]), axis=-1, keepdims=True) + 1e-6)

    first, second = keras.Input((side, side, 3)), keras.Input((side, side, 3))
    tower = _tower(side, 64)
    far = Distance()([tower(first), tower(second)])
    return keras.Model([first, second], layers.Dense(1, activation="sigmoid", dtype="float32")(far))


def pictures_and_texts(side: int = 64, length: int = 32) -> Any:
    """A tower for images, one for texts, and their similarity."""
    picture, text = keras.Input((side, side, 3)), keras.Input((length,), dtype="int32")
    x = layers.Embedding(20000, 256)(text)
    x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(4, 64)(x, x)]))
    x = layers.UnitNormalization()(layers.Dense(128)(layers.GlobalAveragePooling1D()(x)))
    near = layers.Dot(axes=-1)([_tower(side, 128)(picture), x])
    return keras.Model(
        [picture, text], layers.Dense(1, activation="sigmoid", dtype="float32")(near)
    )
