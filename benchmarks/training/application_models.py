"""Models of ``keras.applications``, untrained, on about the smallest images they accept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.training.training_cases import Model, images

CLASSES = 10
_SPARSE = "sparse_categorical_crossentropy"


def _application(name: str, side: int) -> Callable[[], Any]:
    def build() -> Any:
        import keras

        make = getattr(keras.applications, name)
        return make(weights=None, input_shape=(side, side, 3), classes=CLASSES)

    return build


APPLICATIONS = tuple(
    Model(name, _application(keras_name, side), images(side, side, classes=CLASSES), _SPARSE)
    for name, keras_name, side in (
        ("MobileNetV2 32×32", "MobileNetV2", 32),
        ("ResNet50 32×32", "ResNet50", 32),
        ("DenseNet121 32×32", "DenseNet121", 32),
        ("EfficientNetB0 32×32", "EfficientNetB0", 32),
        ("VGG16 32×32", "VGG16", 32),
        ("Xception 71×71", "Xception", 71),
    )
)
