"""Small models: one for each common kind of layer."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def mlp() -> Any:
    return keras.Sequential(
        [
            keras.Input((20,)),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(32, activation="gelu"),
            layers.Dense(3),
        ]
    )


def convnet() -> Any:
    """Convolution, batch normalization, both poolings, dropout."""
    inputs = keras.Input((28, 28, 3))
    x = inputs
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.AveragePooling2D(2)(x)
    x = layers.Dropout(0.25)(x)
    x = layers.Dense(32, activation="relu")(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def separable() -> Any:
    return keras.Sequential(
        [
            keras.Input((28, 28, 3)),
            layers.SeparableConv2D(16, 3, activation="relu"),
            layers.DepthwiseConv2D(3, strides=2, depth_multiplier=2, activation="swish"),
            layers.SeparableConv2D(32, 3, padding="same", dilation_rate=2),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )


def recurrent(kind: str) -> Any:
    """``LSTM``, ``GRU`` (with all defaults, including ``use_cudnn``), or bidirectional LSTM."""

    def layer(**options: Any) -> Any:
        if kind == "Bidirectional":
            return layers.Bidirectional(layers.LSTM(12, **options))
        return getattr(layers, kind)(24, **options)

    return keras.Sequential(
        [keras.Input((16, 8)), layer(return_sequences=True), layer(), layers.Dense(3)]
    )


def conv_lstm() -> Any:
    return keras.Sequential(
        [
            keras.Input((5, 12, 12, 2)),
            layers.ConvLSTM2D(6, 3, return_sequences=True),
            layers.ConvLSTM2D(4, 3),
            layers.GlobalMaxPooling2D(),
            layers.Dense(3),
        ]
    )


def text() -> Any:
    """Masked sentences of very different lengths."""
    return keras.Sequential(
        [
            keras.Input((12,), dtype="int32"),
            layers.Embedding(200, 16, mask_zero=True),
            layers.SpatialDropout1D(0.2),
            layers.GRU(12),
            layers.Dense(3),
        ]
    )


def transformer() -> Any:
    inputs = keras.Input((16,), dtype="int32")
    x = layers.Embedding(100, 32)(inputs)
    attended = layers.MultiHeadAttention(4, 8, dropout=0.1)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(layers.Add()([x, attended]))
    fed = layers.Dense(32)(layers.Dense(64, activation="gelu")(x))
    x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(fed)]))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


def unet() -> Any:
    """Three kinds of upsampling layers."""
    inputs = keras.Input((32, 32, 3))
    first = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    second = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.MaxPooling2D()(first))
    bottom = layers.Conv2D(24, 3, padding="same", activation="relu")(layers.MaxPooling2D()(second))
    up = layers.UpSampling2D(interpolation="bilinear")(bottom)
    up = layers.Conv2D(16, 3, padding="same")(layers.Concatenate()([up, second]))
    up = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(up)
    up = layers.Concatenate()([up, first, layers.Resizing(32, 32)(layers.UpSampling2D()(bottom))])
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(up))


def siamese() -> Any:
    """Two inputs through the same layers: their gradients are summed."""
    shared = keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(16),
        ]
    )
    left, right = keras.Input((16, 16, 1)), keras.Input((16, 16, 1))
    apart = layers.Subtract()([shared(left), shared(right)])
    near = layers.Dense(1, activation="sigmoid")(layers.Multiply()([apart, apart]))
    return keras.Model([left, right], near)


def several_outputs() -> Any:
    inputs = keras.Input((24,))
    x = layers.BatchNormalization()(layers.Dense(32, activation="elu")(inputs))
    kind = layers.Dense(5, activation="softmax", name="kind")(x)
    size = layers.Dense(1, name="size")(layers.Concatenate()([x, kind]))
    return keras.Model(inputs, [kind, size])


def volumes() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 12, 12, 1)),
            layers.Conv3D(6, 3, activation="relu"),
            layers.MaxPooling3D(),
            layers.Conv3DTranspose(4, 2, strides=2),
            layers.GlobalAveragePooling3D(),
            layers.Dense(3),
        ]
    )


def waves() -> Any:
    return keras.Sequential(
        [
            keras.Input((64, 2)),
            layers.GaussianNoise(0.1),
            layers.Conv1D(16, 5, padding="causal", activation="relu"),
            layers.GroupNormalization(4),
            layers.MaxPooling1D(),
            layers.Conv1D(16, 3, strides=2),
            layers.GlobalMaxPooling1D(),
            layers.Dense(3),
        ]
    )
