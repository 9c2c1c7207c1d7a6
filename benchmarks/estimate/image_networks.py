"""Networks for images, videos and audio, in realistic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.training.training_cases import Batches


def digits_net() -> Any:
    """The convolutional network of Keras's first example, but wider."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, dtype="float32"),
        ]
    )


def unet(side: int = 128, base: int = 32, depth: int = 4) -> Any:
    """Two convolutions per level, transposed convolutions on the way up, all skip connections."""
    import keras
    from keras import layers

    def two(x: Any, filters: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        return x

    inputs = keras.Input((side, side, 3))
    x, skips = inputs, []
    for level in range(depth):
        x = two(x, base * 2**level)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = two(x, base * 2**depth)
    for level in reversed(range(depth)):
        x = layers.Conv2DTranspose(base * 2**level, 2, strides=2)(x)
        x = two(layers.Concatenate()([x, skips[level]]), base * 2**level)
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid", dtype="float32")(x))


def masks(random: np.random.Generator, count: int, side: int = 128) -> Batches:
    """Images, and masks of their bright parts."""
    pictures = random.random((count, side, side, 3), dtype=np.float32)
    return Batches(pictures, (pictures.mean(-1, keepdims=True) > 0.5).astype(np.float32))


def autoencoder() -> Any:
    """Strided convolutions down to 256 numbers and back up to the picture."""
    import keras
    from keras import layers

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


def pictures_twice(random: np.random.Generator, count: int) -> Batches:
    """Images that are their own targets."""
    pictures = random.random((count, 64, 64, 3), dtype=np.float32)
    return Batches(pictures, pictures)


def sound_net() -> Any:
    """One second of sound at 16 kHz through 1-D convolutions."""
    import keras
    from keras import layers

    inputs = keras.Input((16000, 1))
    x = layers.Conv1D(64, 80, strides=4, padding="same", use_bias=False)(inputs)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for filters in (64, 128, 256):
        x = layers.MaxPooling1D(4)(x)
        x = layers.Conv1D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(35, dtype="float32")(x))


def film_net() -> Any:
    """Videos of 16 small images through 3-D convolutions."""
    import keras
    from keras import layers

    model = keras.Sequential([keras.Input((16, 48, 48, 3))])
    for filters in (16, 32, 64):
        model.add(layers.Conv3D(filters, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling3D())
    model.add(layers.GlobalAveragePooling3D())
    model.add(layers.Dense(10, dtype="float32"))
    return model


def conv_lstm_net() -> Any:
    """Predict an image from the 10 before it."""
    import keras
    from keras import layers

    inputs = keras.Input((10, 32, 32, 1))
    x = layers.ConvLSTM2D(16, 3, padding="same", return_sequences=True)(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.ConvLSTM2D(16, 3, padding="same")(x)
    return keras.Model(inputs, layers.Conv2D(1, 3, padding="same", dtype="float32")(x))


def next_pictures(random: np.random.Generator, count: int) -> Batches:
    """Ten images and the next one."""
    films = random.random((count, 11, 32, 32, 1), dtype=np.float32)
    return Batches(films[:, :10], films[:, 10])
