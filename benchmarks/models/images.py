"""Networks that classify images, videos and scans, find things in them, or label their pixels."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def digits_net() -> Any:
    """The convolutional network of Keras's first example, but wider."""
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


def film_net() -> Any:
    """Videos of 16 small images through 3-D convolutions."""
    model = keras.Sequential([keras.Input((16, 48, 48, 3))])
    for filters in (16, 32, 64):
        model.add(layers.Conv3D(filters, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling3D())
    model.add(layers.GlobalAveragePooling3D())
    model.add(layers.Dense(10, dtype="float32"))
    return model


def house_net() -> Any:
    """An image and a row of a table as inputs, a class and a price as outputs."""
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


def _conv_norm(x: Any, filters: int, size: int = 3, **options: Any) -> Any:
    x = layers.Conv2D(filters, size, padding="same", use_bias=False, **options)(x)
    return layers.Activation("relu")(layers.BatchNormalization()(x))


def convnet_with_norm(side: int = 32) -> Any:
    """A tutorial-style classifier of small images, with dropout between its blocks."""
    inputs = keras.Input((side, side, 3))
    x = inputs
    for filters in (64, 128, 256):
        x = _conv_norm(_conv_norm(x, filters), filters)
        x = layers.Dropout(0.3)(layers.MaxPooling2D()(x))
    x = layers.Dense(512, activation="relu")(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def augmented_convnet(side: int = 96) -> Any:
    """Augmentation as layers of the model, then a classifier."""
    inputs = keras.Input((side, side, 3))
    x = layers.RandomFlip("horizontal")(inputs)
    x = layers.RandomTranslation(0.1, 0.1)(x)
    x = layers.Rescaling(2.0, offset=-1.0)(x)
    for filters in (32, 64, 128):
        x = layers.Conv2D(filters, 3, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def group_norm_resnet(side: int = 64) -> Any:
    """Residual blocks with group normalization and pre-activation."""

    def block(x: Any, filters: int, strides: int) -> Any:
        kept = layers.Conv2D(filters, 1, strides=strides)(x)
        for each in (strides, 1):
            x = layers.Activation("swish")(layers.GroupNormalization(8)(x))
            x = layers.Conv2D(filters, 3, strides=each, padding="same")(x)
        return layers.Add()([kept, x])

    inputs = keras.Input((side, side, 3))
    x = layers.Conv2D(32, 3, padding="same")(inputs)
    for filters, strides in ((32, 1), (64, 2), (128, 2)):
        x = block(block(x, filters, strides), filters, 1)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def excited_convnet(side: int = 64) -> Any:
    """Squeeze and excitation: each channel is weighted by its contents."""
    inputs = keras.Input((side, side, 3))
    x = _conv_norm(inputs, 32)
    for filters in (64, 128, 256):
        x = _conv_norm(x, filters, strides=2)
        weight = layers.GlobalAveragePooling2D(keepdims=True)(x)
        weight = layers.Dense(filters // 8, activation="relu")(weight)
        weight = layers.Dense(filters, activation="sigmoid")(weight)
        x = layers.Multiply()([x, weight])
    x = layers.GlobalMaxPooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def conv_mixer(side: int = 64, dim: int = 160, depth: int = 6) -> Any:
    """Patches mixed by depthwise and pointwise convolutions."""

    def norm(x: Any) -> Any:
        return layers.BatchNormalization()(layers.Activation("gelu")(x))

    inputs = keras.Input((side, side, 3))
    x = norm(layers.Conv2D(dim, 4, strides=4)(inputs))
    for _ in range(depth):
        x = layers.Add()([x, norm(layers.DepthwiseConv2D(5, padding="same")(x))])
        x = norm(layers.Conv2D(dim, 1)(x))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def mlp_mixer(side: int = 64, patch: int = 8, dim: int = 256, depth: int = 4) -> Any:
    """Patches mixed by dense layers, alternately over positions and channels."""
    inputs = keras.Input((side, side, 3))
    places = (side // patch) ** 2
    x = layers.Reshape((places, dim))(layers.Conv2D(dim, patch, strides=patch)(inputs))
    for _ in range(depth):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        y = layers.Dense(places)(layers.Dense(2 * places, activation="gelu")(y))
        x = layers.Add()([x, layers.Permute((2, 1))(y)])
        y = layers.Dense(4 * dim, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(dim)(y)])
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def resizing_unet(side: int = 96, *, how: str = "bilinear", is_gated: bool = False) -> Any:
    """A U-Net that upsamples by resizing; ``is_gated`` weights its skip connections."""

    def gate(kept: Any, signal: Any, filters: int) -> Any:
        both = layers.Add()([layers.Conv2D(filters, 1)(kept), layers.Conv2D(filters, 1)(signal)])
        weight = layers.Conv2D(1, 1, activation="sigmoid")(layers.Activation("relu")(both))
        return layers.Multiply()([kept, weight])

    inputs = keras.Input((side, side, 3))
    x, skips = inputs, []
    for filters in (24, 48, 96):
        x = _conv_norm(_conv_norm(x, filters), filters)
        skips.append((filters, x))
        x = layers.MaxPooling2D()(x)
    x = _conv_norm(x, 192)
    for filters, kept in reversed(skips):
        x = layers.UpSampling2D(2, interpolation=how)(x)
        passed = gate(kept, x, filters) if is_gated else kept
        x = _conv_norm(layers.Concatenate()([x, passed]), filters)
    return keras.Model(inputs, layers.Conv2D(4, 1, activation="softmax", dtype="float32")(x))


def dilated_segmenter(side: int = 96) -> Any:
    """Parallel dilated convolutions of several rates, resized to the image size."""
    inputs = keras.Input((side, side, 3))
    early = _conv_norm(_conv_norm(inputs, 32, strides=2), 48)
    x = _conv_norm(_conv_norm(early, 96, strides=2), 128, strides=2)
    rates = [_conv_norm(x, 64, dilation_rate=rate) for rate in (1, 2, 3)]
    pooled = _conv_norm(layers.GlobalAveragePooling2D(keepdims=True)(x), 64, 1)
    rates.append(layers.UpSampling2D(side // 8, interpolation="bilinear")(pooled))
    x = _conv_norm(layers.Concatenate()(rates), 64, 1)
    x = layers.UpSampling2D(4, interpolation="bilinear")(x)
    x = _conv_norm(layers.Concatenate()([x, _conv_norm(early, 24, 1)]), 64)
    x = layers.Resizing(side, side)(x)
    return keras.Model(inputs, layers.Conv2D(4, 1, activation="softmax", dtype="float32")(x))


def pyramid_detector(side: int = 128) -> Any:
    """A feature pyramid with heads for classes and boxes at three scales."""
    inputs = keras.Input((side, side, 3))
    x, levels = _conv_norm(inputs, 24, strides=2), []
    for filters in (48, 96, 192):
        x = _conv_norm(_conv_norm(x, filters, strides=2), filters)
        levels.append(layers.Conv2D(64, 1)(x))
    for number in (1, 0):
        larger = layers.UpSampling2D(2)(levels[number + 1])
        levels[number] = layers.Add()([levels[number], larger])
    head, kinds, boxes = layers.Conv2D(64, 3, padding="same", activation="relu"), [], []
    for level in levels:
        seen = head(level)
        kinds.append(layers.Reshape((-1, 8))(layers.Conv2D(8, 3, padding="same")(seen)))
        boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(4, 3, padding="same")(seen)))
    joined = layers.Concatenate(axis=1)
    kind = layers.Activation("softmax", name="kind", dtype="float32")(joined(kinds))
    return keras.Model(
        inputs, [kind, layers.Activation("linear", name="box", dtype="float32")(joined(boxes))]
    )


def film_unet(frames: int = 16, side: int = 48) -> Any:
    """A U-Net in three dimensions, as for medical scans."""

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
