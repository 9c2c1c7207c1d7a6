"""Networks that generate images, or have several inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.training.training_cases import Batches


def generator(latent: int = 128) -> Any:
    """Noise becomes an image through transposed convolutions."""
    import keras
    from keras import layers

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
    import keras
    from keras import layers

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
    import keras
    from keras import layers, ops

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


def noisy_pictures(random: np.random.Generator, count: int, side: int = 32) -> Batches:
    """Images and times, and the noise in them."""
    pictures = random.standard_normal((count, side, side, 3), dtype=np.float32)
    times = random.random((count, 1), dtype=np.float32)
    return Batches([pictures, times], random.standard_normal(pictures.shape, dtype=np.float32))


def convolutional_vae(side: int = 64, latent: int = 64) -> Any:
    """A variational autoencoder for images whose sampling layer adds its KL loss."""
    import keras
    from keras import layers, ops

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
    import keras
    from keras import layers

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
    import keras
    from keras import layers, ops

    class Distance(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, both: Any) -> Any:
            return ops.sqrt(ops.sum(ops.square(both[0] - both[1]), axis=-1, keepdims=True) + 1e-6)

    first, second = keras.Input((side, side, 3)), keras.Input((side, side, 3))
    tower = _tower(side, 64)
    far = Distance()([tower(first), tower(second)])
    return keras.Model([first, second], layers.Dense(1, activation="sigmoid", dtype="float32")(far))


def picture_pairs(random: np.random.Generator, count: int, side: int = 64) -> Batches:
    """Two images, and whether they belong together."""
    pictures = [random.random((count, side, side, 3), dtype=np.float32) for _ in range(2)]
    return Batches(pictures, random.integers(0, 2, (count, 1)).astype(np.float32))


def pictures_and_texts(side: int = 64, length: int = 32) -> Any:
    """A tower for images, one for texts, and their similarity."""
    import keras
    from keras import layers

    picture, text = keras.Input((side, side, 3)), keras.Input((length,), dtype="int32")
    x = layers.Embedding(20000, 256)(text)
    x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(4, 64)(x, x)]))
    x = layers.UnitNormalization()(layers.Dense(128)(layers.GlobalAveragePooling1D()(x)))
    near = layers.Dot(axes=-1)([_tower(side, 128)(picture), x])
    return keras.Model(
        [picture, text], layers.Dense(1, activation="sigmoid", dtype="float32")(near)
    )


def captioned(random: np.random.Generator, count: int, side: int = 64) -> Batches:
    """Images and texts, and whether the text describes the image."""
    pictures = random.random((count, side, side, 3), dtype=np.float32)
    texts = random.integers(1, 20000, (count, 32)).astype(np.int32)
    return Batches([pictures, texts], random.integers(0, 2, (count, 1)).astype(np.float32))


def film_unet(frames: int = 16, side: int = 48) -> Any:
    """A U-Net in three dimensions, as for medical scans."""
    import keras
    from keras import layers

    def two(x: Any, filters: int) -> Any:
        for _ in range(2):
            x = layers.Conv3D(filters, 3, padding="same", activation="relu")(x)
        return x

    inputs = keras.Input((frames, side, side, 1))
    first = two(inputs, 16)
    second = two(layers.MaxPooling3D()(first), 32)
    x = two(layers.MaxPooling3D()(second), 64)
    for kept, filters in ((second, 32), (first, 16)):
        x = two(layers.Concatenate()([layers.UpSampling3D(2)(x), kept]), filters)
    return keras.Model(inputs, layers.Conv3D(1, 1, activation="sigmoid", dtype="float32")(x))


def scans(random: np.random.Generator, count: int) -> Batches:
    """Volumes, and masks of their bright parts."""
    volumes = random.random((count, 16, 48, 48, 1), dtype=np.float32)
    return Batches(volumes, (volumes > 0.5).astype(np.float32))


def noise_to_pictures(random: np.random.Generator, count: int) -> Batches:
    """Noise, and the target images."""
    noise = random.standard_normal((count, 128), dtype=np.float32)
    return Batches(noise, random.random((count, 64, 64, 3), dtype=np.float32))


def real_or_not(random: np.random.Generator, count: int) -> Batches:
    """Images, and whether they are real."""
    pictures = random.random((count, 64, 64, 3), dtype=np.float32)
    return Batches(pictures, random.integers(0, 2, (count, 1)).astype(np.float32))


def pictures_again(random: np.random.Generator, count: int) -> Batches:
    """Images that are their own targets."""
    pictures = random.random((count, 64, 64, 3), dtype=np.float32)
    return Batches(pictures, pictures)
