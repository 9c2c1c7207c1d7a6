"""Transforms of entire batches: augmentation of values 0 to 255, then scaling."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from gpuconf.errors import UsageError

Transform = Callable[[Any], Any]
_HINT = 'scale="0-1", scale="-1-1", a factor such as 1/255, a Keras layer, or a function'


def make_scale(scale: Any) -> Transform | None:
    """Return the scaling of a batch; None if it keeps its values 0.0 to 255.0."""
    if scale is None:
        return None
    if isinstance(scale, str):
        return _named_scale(scale)
    if isinstance(scale, Real) and not isinstance(scale, bool):
        if not math.isfinite(scale) or scale == 0:
            raise UsageError(f"scale={scale!r} makes every image empty", hint=_HINT)
        factor = float(scale)
        return lambda images: images * factor
    if callable(scale):
        return _one_step(scale, training=False)
    raise UsageError(f"scale={scale!r} is not a supported scaling", hint=_HINT)


def _named_scale(scale: str) -> Transform:
    if scale == "0-1":
        return lambda images: images / 255.0
    if scale == "-1-1":
        return lambda images: images / 127.5 - 1.0
    raise UsageError(f"scale={scale!r} is neither '0-1' nor '-1-1'", hint=_HINT)


def make_augment(augment: Any) -> Transform | None:
    """Return the augmentation of training batches: a Keras layer or model, a function, or several.

    Layers with a ``training`` argument are called with ``training=True``. The layers of a
    Sequential model are called one by one: Keras on JAX or PyTorch can call layers in tf.data, but
    not models.
    """
    if augment is None:
        return None
    if any(base.__name__ == "Sequential" for base in type(augment).__mro__):
        augment = list(augment.layers)
    parts = augment if isinstance(augment, Sequence) else [augment]
    wrong = [part for part in parts if not callable(part)]
    if wrong or not parts or isinstance(augment, str):
        raise UsageError(
            f"augment={augment!r} is not a Keras layer, a function, or a list of them",
            hint='augment=[keras.layers.RandomFlip("horizontal"), keras.layers.RandomZoom(0.1)]',
        )
    steps = [_one_step(part, training=True) for part in parts]

    def augmented(images: Any) -> Any:
        for step in steps:
            images = step(images)
        return images

    return augmented


def _one_step(part: Any, *, training: bool) -> Transform:
    """Call the part, with ``training=`` if it accepts that."""
    try:
        parameters = inspect.signature(getattr(part, "call", part)).parameters
    except (TypeError, ValueError):  # C functions have no signature
        parameters = {}  # type: ignore[assignment]
    takes = "training" in parameters
    return lambda images: part(images, training=training) if takes else part(images)
