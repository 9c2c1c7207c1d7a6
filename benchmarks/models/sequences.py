"""Networks for text, audio and series: transformers, recurrent layers, convolutions."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

VOCABULARY = 6000


def encoder(x: Any, *, depth: int, dim: int, heads: int) -> Any:
    """Transformer blocks: attention and a network four times as wide, each added and normalized."""
    for _ in range(depth):
        attended = layers.MultiHeadAttention(heads, dim // heads, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        fed = layers.Dense(dim)(layers.Dense(4 * dim, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(fed)]))
    return x


def language_model(length: int = 128, dim: int = 256, vocabulary: int = 8000) -> Any:
    """A transformer encoder whose head returns a number for every word of the vocabulary."""
    inputs = keras.Input((length,), dtype="int32")
    x = encoder(layers.Embedding(vocabulary, dim)(inputs), depth=4, dim=dim, heads=8)
    return keras.Model(inputs, layers.Dense(vocabulary, dtype="float32")(x))


def vision_transformer(side: int = 96, patch: int = 8, dim: int = 192) -> Any:
    """Patches of an image as words."""
    inputs = keras.Input((side, side, 3))
    x = layers.Conv2D(dim, patch, strides=patch)(inputs)
    x = layers.Reshape(((side // patch) ** 2, dim))(x)
    x = encoder(x, depth=6, dim=dim, heads=6)
    return keras.Model(
        inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling1D()(x))
    )


def lstm_net() -> Any:
    """A classifier of sentences: an embedding and two LSTMs."""
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
    return keras.Sequential(
        [
            keras.Input((100, 32)),
            layers.Bidirectional(layers.GRU(128, return_sequences=True)),
            layers.Bidirectional(layers.GRU(64)),
            layers.Dense(6, dtype="float32"),
        ]
    )


def sound_net() -> Any:
    """One second of sound at 16 kHz through 1-D convolutions."""
    inputs = keras.Input((16000, 1))
    x = layers.Conv1D(64, 80, strides=4, padding="same", use_bias=False)(inputs)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for filters in (64, 128, 256):
        x = layers.MaxPooling1D(4)(x)
        x = layers.Conv1D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(35, dtype="float32")(x))


def _causal_block(x: Any, dim: int, heads: int, *, grouped: bool = False) -> Any:
    norm = layers.RMSNormalization if grouped else layers.LayerNormalization
    y = norm()(x)
    if grouped:
        attention = layers.GroupQueryAttention(dim // heads, heads, heads // 2)
    else:
        attention = layers.MultiHeadAttention(heads, dim // heads)
    x = layers.Add()([x, attention(y, y, use_causal_mask=True)])
    y = norm()(x)
    if grouped:
        wide = layers.Dense(3 * dim, use_bias=False)(y)
        gated = layers.Dense(3 * dim, activation="silu", use_bias=False)(y)
        y = layers.Multiply()([wide, gated])
    else:
        y = layers.Dense(4 * dim, activation="gelu")(y)
    return layers.Add()([x, layers.Dense(dim)(y)])


def decoder_only(length: int = 128, dim: int = 192, *, grouped: bool = False) -> Any:
    """A causal language model; ``grouped`` uses shared keys, RMS normalization and gated layers."""
    words = keras.Input((length,), dtype="int32")
    x = layers.Embedding(VOCABULARY, dim)(words)
    for _ in range(4):
        x = _causal_block(x, dim, 6, grouped=grouped)
    x = layers.LayerNormalization()(x)
    return keras.Model(words, layers.Dense(VOCABULARY, use_bias=False, dtype="float32")(x))


def tied_decoder(length: int = 96, dim: int = 256) -> Any:
    """One table for both the word embeddings and the output layer."""
    words = keras.Input((length,), dtype="int32")
    table = layers.ReversibleEmbedding(VOCABULARY, dim)
    x = table(words)
    for _ in range(3):
        x = _causal_block(x, dim, 4)
    return keras.Model(words, table(layers.LayerNormalization()(x), reverse=True))


def masked_encoder(length: int = 160, dim: int = 192) -> Any:
    """A BERT-like classifier with position embeddings and masked padding."""

    class WithPlaces(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.words = layers.Embedding(VOCABULARY, dim, mask_zero=True)
            self.places = layers.Embedding(length, dim)

        def call(self, rows: Any) -> Any:
            return self.words(rows) + self.places(keras.ops.arange(length))

        def compute_mask(self, rows: Any, previous_mask: Any = None) -> Any:  # noqa: ARG002
            return self.words.compute_mask(rows)

    words = keras.Input((length,), dtype="int32")
    x = layers.Dropout(0.1)(layers.LayerNormalization()(WithPlaces()(words)))
    x = encoder(x, depth=4, dim=dim, heads=6)
    x = layers.Dense(dim, activation="tanh")(layers.GlobalAveragePooling1D()(x))
    return keras.Model(words, layers.Dense(3, dtype="float32")(x))


def translator(length: int = 64, dim: int = 192) -> Any:
    """An encoder, and a decoder that attends to it."""
    source, target = keras.Input((length,), dtype="int32"), keras.Input((length,), dtype="int32")
    known = layers.Embedding(VOCABULARY, dim)(source)
    for _ in range(2):
        attended = layers.MultiHeadAttention(6, dim // 6)(known, known)
        known = layers.LayerNormalization()(layers.Add()([known, attended]))
        fed = layers.Dense(dim)(layers.Dense(4 * dim, activation="relu")(known))
        known = layers.LayerNormalization()(layers.Add()([known, fed]))
    x = layers.Embedding(VOCABULARY, dim)(target)
    for _ in range(2):
        x = _causal_block(x, dim, 6)
        crossed = layers.MultiHeadAttention(6, dim // 6)(x, known)
        x = layers.LayerNormalization()(layers.Add()([x, crossed]))
    return keras.Model([source, target], layers.Dense(VOCABULARY, dtype="float32")(x))


def tagger(length: int = 100) -> Any:
    """A bidirectional classifier of each word."""
    words = keras.Input((length,), dtype="int32")
    x = layers.Embedding(VOCABULARY, 128)(words)
    for units in (128, 96):
        x = layers.Bidirectional(layers.LSTM(units, return_sequences=True))(x)
    return keras.Model(words, layers.Dense(20, activation="softmax", dtype="float32")(x))


def stacked_gru() -> Any:
    """A forecast from three stacked GRUs with dropout."""
    inputs = keras.Input((144, 16))
    x = layers.GRU(192, return_sequences=True)(inputs)
    x = layers.GRU(192, return_sequences=True, dropout=0.2)(x)
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(layers.GRU(96)(x)))


def simple_recurrent() -> Any:
    """Keras's simplest recurrent layer, twice."""
    inputs = keras.Input((60, 24))
    x = layers.SimpleRNN(160)(layers.SimpleRNN(160, return_sequences=True)(inputs))
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(x))


def attending_lstm(length: int = 48) -> Any:
    """One LSTM reads; another starts from its last state and attends to its outputs."""
    source, target = keras.Input((length,), dtype="int32"), keras.Input((length,), dtype="int32")
    encoder = layers.LSTM(256, return_sequences=True, return_state=True)
    read, hidden, cell = encoder(layers.Embedding(VOCABULARY, 128)(source))
    written = layers.LSTM(256, return_sequences=True)(
        layers.Embedding(VOCABULARY, 128)(target), initial_state=[hidden, cell]
    )
    seen = layers.Attention()([written, read])
    x = layers.Dense(256, activation="tanh")(layers.Concatenate()([written, seen]))
    return keras.Model([source, target], layers.Dense(VOCABULARY, dtype="float32")(x))


def dilated_convolutions() -> Any:
    """A temporal convolutional network: causal, dilated, residual."""
    inputs = keras.Input((512, 12))
    x = layers.Conv1D(96, 1)(inputs)
    for rate in (1, 2, 4, 8, 16):
        y = x
        for _ in range(2):
            y = layers.Conv1D(96, 3, padding="causal", dilation_rate=rate, activation="relu")(y)
            y = layers.SpatialDropout1D(0.1)(y)
        x = layers.Add()([x, y])
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(layers.GlobalMaxPooling1D()(x)))


def gated_sound(length: int = 4000) -> Any:
    """Gated dilated convolutions with summed skip connections."""
    inputs = keras.Input((length, 1))
    x, skips = layers.Conv1D(48, 1)(inputs), []
    for rate in (1, 2, 4, 8, 16, 32):
        wave = layers.Conv1D(48, 2, padding="causal", dilation_rate=rate, activation="tanh")(x)
        gate = layers.Conv1D(48, 2, padding="causal", dilation_rate=rate, activation="sigmoid")(x)
        y = layers.Multiply()([wave, gate])
        skips.append(layers.Conv1D(64, 1)(y))
        x = layers.Add()([x, layers.Conv1D(48, 1)(y)])
    x = layers.GlobalAveragePooling1D()(layers.Activation("relu")(layers.Add()(skips)))
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(x))


def wide_text_convnet(length: int = 200) -> Any:
    """Convolutions of several widths over a large word embedding."""
    words = keras.Input((length,), dtype="int32")
    x = layers.Embedding(120_000, 128)(words)
    widths = [layers.Conv1D(128, width, activation="relu")(x) for width in (3, 4, 5)]
    x = layers.Concatenate()([layers.GlobalMaxPooling1D()(each) for each in widths])
    return keras.Model(words, layers.Dense(3, dtype="float32")(layers.Dropout(0.5)(x)))


def separable_sound() -> Any:
    """A spectrogram as a one-channel image, separable convolutions."""
    inputs = keras.Input((128, 64, 1))
    x = layers.Conv2D(32, 3, strides=2, padding="same")(inputs)
    for filters in (64, 128, 192):
        x = layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = layers.AveragePooling2D(2)(x)
    return keras.Model(inputs, layers.Dense(3, dtype="float32")(layers.GlobalAveragePooling2D()(x)))
