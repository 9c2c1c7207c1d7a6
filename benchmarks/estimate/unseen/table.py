"""The unseen models with their batches, and the half that each belongs to."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from benchmarks.estimate.estimated_models import Estimated
from benchmarks.estimate.unseen import generators, sequences, tables, vision
from benchmarks.training.training_cases import Model, images, series, words

Half = Literal["learn", "held"]
_SPARSE = "sparse_categorical_crossentropy"
_BINARY = "binary_crossentropy"
# All of keras.applications except the seven that the estimate was tuned on: side, batches.
_APPLICATIONS: dict[str, tuple[int, tuple[int, int]]] = {
    "ConvNeXtSmall": (64, (2, 8)),
    "ConvNeXtBase": (64, (2, 6)),
    "ConvNeXtLarge": (32, (2, 6)),
    "ConvNeXtXLarge": (32, (1, 2)),
    "DenseNet169": (64, (4, 12)),
    "DenseNet201": (64, (2, 8)),
    "EfficientNetB1": (64, (4, 16)),
    "EfficientNetB2": (64, (4, 16)),
    "EfficientNetB3": (64, (2, 8)),
    "EfficientNetB4": (64, (2, 8)),
    "EfficientNetB5": (64, (2, 6)),
    "EfficientNetB6": (64, (2, 4)),
    "EfficientNetB7": (64, (1, 3)),
    "EfficientNetV2B0": (64, (4, 24)),
    "EfficientNetV2B1": (64, (4, 16)),
    "EfficientNetV2B2": (64, (4, 16)),
    "EfficientNetV2B3": (64, (4, 16)),
    "EfficientNetV2S": (64, (4, 12)),
    "EfficientNetV2M": (64, (2, 6)),
    "EfficientNetV2L": (64, (1, 3)),
    "InceptionResNetV2": (75, (2, 8)),
    "InceptionV3": (96, (4, 12)),
    "MobileNet": (128, (4, 24)),
    "MobileNetV3Large": (128, (4, 24)),
    "MobileNetV3Small": (128, (8, 48)),
    "NASNetLarge": (64, (1, 3)),
    "NASNetMobile": (64, (4, 12)),
    "ResNet101": (64, (4, 12)),
    "ResNet101V2": (64, (4, 12)),
    "ResNet152": (64, (2, 8)),
    "ResNet152V2": (64, (2, 8)),
    "ResNet50V2": (96, (4, 16)),
    "VGG19": (64, (4, 24)),
}


def _application(name: str, side: int) -> Model:
    def build() -> Any:
        import keras

        return getattr(keras.applications, name)(
            weights=None, input_shape=(side, side, 3), classes=10
        )

    return Model(f"{name} {side}", build, images(side, side), _SPARSE)


def _logits() -> Any:
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _own(name: str, build: Any, data: Any, loss: Any, *batches: int, **options: Any) -> Estimated:
    return Estimated(Model(name, build, data, loss, **options), batches)


_VISION = (
    _own("convnet with norm", vision.convnet_with_norm, images(32, 32), _logits, 32, 128),
    _own("augmented convnet", vision.augmented_convnet, images(96, 96), _logits, 8, 32),
    _own("group norm ResNet", vision.group_norm_resnet, images(64, 64), _logits, 8, 24),
    _own("excited convnet", vision.excited_convnet, images(64, 64), _logits, 16, 64),
    _own("ConvMixer", vision.conv_mixer, images(64, 64), _logits, 16, 64),
    _own("MLP-Mixer", vision.mlp_mixer, images(64, 64), _logits, 16, 64),
    _own("U-Net bilinear", vision.resizing_unet, vision.four_kinds(96), _SPARSE, 4, 12),
    _own(
        "U-Net nearest and gated",
        lambda: vision.resizing_unet(how="nearest", is_gated=True),
        vision.four_kinds(96),
        _SPARSE,
        4,
        12,
    ),
    _own("dilated segmenter", vision.dilated_segmenter, vision.four_kinds(96), _SPARSE, 4, 16),
    _own("pyramid detector", vision.pyramid_detector, vision.boxes, [_SPARSE, "huber"], 4, 16),
    _own("super-resolution", vision.super_resolution, vision.enlarged, "mae", 4, 12),
    _own("generator", generators.generator, generators.noise_to_pictures, "mse", 16, 64),
    _own("discriminator", generators.discriminator, generators.real_or_not, _BINARY, 16, 64),
    _own("diffusion U-Net", generators.diffusion_unet, generators.noisy_pictures, "mse", 4, 16),
    _own(
        "convolutional VAE", generators.convolutional_vae, generators.pictures_again, "mse", 16, 64
    ),
    _own("siamese pictures", generators.siamese_pictures, generators.picture_pairs, _BINARY, 8, 32),
    _own("pictures and texts", generators.pictures_and_texts, generators.captioned, _BINARY, 8, 32),
    _own("3-D U-Net", generators.film_unet, generators.scans, _BINARY, 1, 4),
)
_SEQUENCES = (
    _own("decoder only", sequences.decoder_only, sequences.next_words(128), _logits, 4, 12),
    _own(
        "decoder grouped queries",
        lambda: sequences.decoder_only(grouped=True),
        sequences.next_words(128),
        _logits,
        4,
        12,
    ),
    _own("decoder tied words", sequences.tied_decoder, sequences.next_words(96), _logits, 4, 12),
    _own("masked encoder", sequences.masked_encoder, words(160, 6000), _logits, 8, 24),
    _own("translator", sequences.translator, sequences.sentence_pairs_of(64), _logits, 4, 16),
    _own("tagger", sequences.tagger, sequences.tags, _SPARSE, 16, 64, on_cudnn=True),
    _own("stacked GRU", sequences.stacked_gru, series(144, 16), _logits, 16, 64, on_cudnn=True),
    _own("simple recurrent", sequences.simple_recurrent, series(60, 24), _logits, 64, 256),
    _own(
        "attending LSTM",
        sequences.attending_lstm,
        sequences.sentence_pairs_of(48),
        _logits,
        8,
        24,
        on_cudnn=True,
    ),
    _own("dilated convolutions", sequences.dilated_convolutions, series(512, 12), _logits, 16, 64),
    _own("gated sound", sequences.gated_sound, series(4000, 1), _logits, 4, 12),
    _own("wide text convnet", sequences.wide_text_convnet, words(200, 120_000), _logits, 16, 64),
    _own("separable sound", sequences.separable_sound, series(128, 64, 1), _logits, 16, 48),
)
_TABLES = (
    _own("two towers", tables.two_towers, tables.likes, _BINARY, 256, 8192),
    _own("click model", tables.click_model, tables.clicks, _BINARY, 1024, 8192),
    _own("wide and deep", tables.wide_and_deep, series(800), _logits, 512, 4096),
    _own(
        "large dense uniform",
        lambda: tables.large_dense("glorot_uniform"),
        series(4096),
        _logits,
        32,
        512,
    ),
    _own(
        "large dense truncated normal",
        lambda: tables.large_dense("he_normal"),
        series(4096),
        _logits,
        32,
        512,
    ),
    _own(
        "large dense normal",
        lambda: tables.large_dense("random_normal", 4608),
        series(4608),
        _logits,
        32,
        512,
    ),
    _own(
        "large dense orthogonal",
        lambda: tables.large_dense("orthogonal", 2048),
        series(2048),
        _logits,
        32,
        512,
    ),
    _own("large embedding", tables.large_embedding, words(24, 400_000), _logits, 64, 1024),
    _own(
        "large embedding normal",
        lambda: tables.large_embedding("glorot_normal"),
        words(24, 400_000),
        _logits,
        64,
        1024,
    ),
    _own("large LSTM", tables.large_lstm, series(20, 512), _logits, 16, 64, on_cudnn=True),
    _own("dense autoencoder", tables.dense_autoencoder, tables.rows_again, "mse", 64, 1024),
    _own("many heads", tables.many_heads, tables.five_answers, ["mse"] * 5, 256, 4096),
    _own("graph network", tables.graph_network, tables.graphs, _logits, 64, 256),
    _own("point cloud", tables.point_cloud, series(512, 3), _logits, 8, 32),
    _own("radiance field", tables.radiance_field, series(3), _logits, 4096, 32768),
    _own("expert mixture", tables.expert_mixture, series(256), _logits, 512, 4096),
    _own("float64 branch", tables.double_branch, series(128), _logits, 1024, 8192),
    _own("penalized slope", tables.penalized, tables.slopes, "mse", 512, 4096),
)
UNSEEN: dict[str, Estimated] = {
    each.model.name: each
    for each in (
        *(
            Estimated(_application(name, side), pair)
            for name, (side, pair) in _APPLICATIONS.items()
        ),
        *_VISION,
        *_SEQUENCES,
        *_TABLES,
    )
}


def half_of(name: str) -> Half:
    """The half of a model, determined only by a hash of its name."""
    return "held" if hashlib.sha256(name.encode()).digest()[0] % 2 else "learn"
