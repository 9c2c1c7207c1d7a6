"""A network that finds how pictures move: convolutions on three scales, down and up again.

gpuconf estimate flow_network:make --batch-size 2
"""

import keras
from keras import layers


def convolution(x, channels, stride=1):
    return layers.Conv2D(channels, 3, strides=stride, padding="same", activation="relu")(x)


def up(x, like):
    """Twice the side, as many channels as ``like``, and added to it."""
    _, height, width, channels = like.shape
    x = layers.Resizing(height, width, interpolation="bilinear")(x)
    return layers.Add()([convolution(x, channels), like])


def make():
    frames = keras.Input((720, 1280, 3))
    full = convolution(convolution(frames, 64), 64)
    half = convolution(convolution(full, 128, stride=2), 128)
    quarter = convolution(convolution(half, 256, stride=2), 256)
    x = up(up(quarter, half), full)
    model = keras.Model(frames, layers.Conv2D(2, 3, padding="same", name="flow")(x))
    model.compile(optimizer="adam", loss="mae")
    return model
