"""The models whose memory is measured and estimated: various kinds, each at four batch sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.estimate import image_networks as image
from benchmarks.estimate import sequence_networks as sequence
from benchmarks.training.small_models import SMALL
from benchmarks.training.training_cases import Model, images, series, words

_SPARSE = "sparse_categorical_crossentropy"


class Estimated(NamedTuple):
    """A model and the batch sizes at which it is measured, here four.

    They are chosen so that a step's peak is between 30 MiB and 3 GiB, and a step takes less than 10
    s on two cores.  ``input_shape``, without the batch, is set for models that do not define their
    own.  ``is_core`` models are trained with every optimizer, the others with one.
    """

    model: Model
    batches: tuple[int, ...]
    is_core: bool = False
    input_shape: tuple[int, ...] | None = None


def _logits() -> Any:
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _application(name: str, side: int, classes: int = 100) -> Model:
    def build() -> Any:
        import keras

        make = getattr(keras.applications, name)
        return make(weights=None, input_shape=(side, side, 3), classes=classes)

    return Model(f"{name} {side}", build, images(side, side, classes=classes), _SPARSE)


def _own(name: str, build: Callable[[], Any], data: Any, loss: Any, **options: Any) -> Model:
    return Model(name, build, data, loss, **options)


_APPLICATIONS = (
    Estimated(_application("ResNet50", 128), (2, 4, 8, 24), is_core=True),
    Estimated(_application("MobileNetV2", 160), (2, 4, 12, 32), is_core=True),
    Estimated(_application("VGG16", 96), (1, 4, 16, 32), is_core=True),
    Estimated(_application("DenseNet121", 96), (2, 4, 8, 24)),
    Estimated(_application("EfficientNetB0", 128), (2, 4, 8, 24), is_core=True),
    Estimated(_application("Xception", 96), (2, 8, 16, 32)),
    Estimated(_application("ConvNeXtTiny", 64), (2, 8, 16, 48)),
)
_IMAGES = (
    Estimated(
        _own("digits convnet", image.digits_net, images(28, 28, 1), _logits),
        (64, 128, 256, 1024),
        is_core=True,
    ),
    Estimated(
        _own("U-Net 128", image.unet, image.masks, "binary_crossentropy"),
        (1, 2, 4, 8),
        is_core=True,
    ),
    Estimated(
        _own("autoencoder", image.autoencoder, image.pictures_twice, "mse"), (16, 64, 128, 512)
    ),
    Estimated(
        _own("1-D audio net", image.sound_net, series(16000, 1, classes=35), _logits),
        (8, 16, 32, 64),
        is_core=True,
    ),
    Estimated(_own("3-D film net", image.film_net, series(16, 48, 48, 3), _logits), (2, 4, 8, 16)),
    Estimated(_own("ConvLSTM", image.conv_lstm_net, image.next_pictures, "mse"), (4, 8, 16, 64)),
)
_SEQUENCES = (
    Estimated(
        _own("dense net", sequence.dense_net, series(784, classes=10), _logits),
        (32, 256, 1024, 8192),
        is_core=True,
    ),
    Estimated(
        _own("transformer LM", sequence.language_model, sequence.sentences, _logits),
        (1, 4, 8, 24),
        is_core=True,
    ),
    Estimated(_own("ViT 96", sequence.vision_transformer, images(96, 96), _logits), (2, 8, 16, 48)),
    Estimated(
        _own("LSTM classifier", sequence.lstm_net, words(80, 20000, classes=2), _logits),
        (16, 64, 128, 512),
        is_core=True,
    ),
    Estimated(
        _own("GRU both ways", sequence.gru_net, series(100, 32, classes=6), _logits),
        (16, 64, 128, 512),
    ),
    Estimated(
        _own("recommender", sequence.recommender, sequence.purchases, "binary_crossentropy"),
        (64, 512, 4096, 32768),
        is_core=True,
    ),
    Estimated(
        _own("two in, two out", sequence.house_net, sequence.houses, [_SPARSE, "huber"]),
        (16, 32, 64, 256),
    ),
    Estimated(
        _own("VAE, own train_step", sequence.variational, sequence.rows_twice, None),
        (64, 512, 2048, 8192),
        input_shape=(3072,),
    ),
)
# The trained models that use enough memory with large batches.
_SMALL_IN_LARGE_BATCHES = {
    "separable convolutions": (128, 256, 512, 2048),
    "U-Net with resizing": (64, 128, 256, 512),
    "shared layers": (1024, 2048, 4096, 16384),
    "transformer block": (512, 1024, 2048, 8192),
}
ESTIMATED: dict[str, Estimated] = {
    each.model.name: each
    for each in (
        *_APPLICATIONS,
        *_IMAGES,
        *_SEQUENCES,
        *(
            Estimated(model, _SMALL_IN_LARGE_BATCHES[model.name])
            for model in SMALL
            if model.name in _SMALL_IN_LARGE_BATCHES
        ),
    )
}
