"""`stream`: a `tf.data.Dataset` of images that holds paths, and only pictures in work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuconf.errors import MissingDependencyError
from gpuconf.images.listing import Source, list_images
from gpuconf.images.options import check_picture
from gpuconf.images.pipeline import Pipeline
from gpuconf.images.request import Part, Request


def stream(
    paths: Any,
    labels: Any = None,
    *,
    size: tuple[int, int],
    batch_size: int = 32,
    channels: int = 3,
    scale: Any = None,
    augment: Any = None,
    shuffle: bool = True,
    seed: int | None = None,
    cache: Any = None,
    host_limit: str | int = "2GiB",
    on_error: str = "raise",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    drop_remainder: bool = False,
    interpolation: str = "bilinear",
    antialias: bool = True,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    path_column: str = "path",
    label_column: str | None = None,
    follow_links: bool = False,
) -> Any:
    """Batches of images from files, for ``fit``, ``evaluate`` and ``predict``.

    ``paths`` is a folder, with a folder for each class or without; a ``.csv`` or ``.parquet``
    list; or a sequence of paths.  ``size`` is (height, width).  Each batch is float32 of the shape
    (batch_size, height, width, channels), values 0 to 255 before ``augment`` and ``scale``, and
    the labels, if there are any.  What the others mean is in docs/images.md.

    Returns a `tf.data.Dataset` with ``class_names``, ``file_paths``, ``memory_plan`` and
    ``skipped``; with ``subset="both"`` two, for training and validation.

    Raises UsageError for arguments that do not go together, and ImageError with the name of the
    file for one that is missing or empty.  A broken one is named while iterating, in an error
    that TensorFlow makes of the ImageError: InvalidArgumentError.
    """
    request = Request(
        picture=check_picture(
            size,
            channels,
            interpolation=interpolation,
            antialias=antialias,
            crop_to_aspect_ratio=crop_to_aspect_ratio,
            pad_to_aspect_ratio=pad_to_aspect_ratio,
        ),
        batch_size=batch_size,
        scale=scale,
        augment=augment,
        shuffle=shuffle,
        seed=seed,
        cache=cache,
        host_limit=host_limit,
        on_error=on_error,
        label_mode=label_mode,
        validation_split=validation_split,
        subset=subset,
        drop_remainder=drop_remainder,
    )
    request.check()
    _require_tensorflow()
    source = Source(paths, labels, label_mode, class_names, path_column, label_column, follow_links)
    return request.make(list_images(source), _dataset)


def _dataset(part: Part) -> Any:
    return part.describe(Pipeline(part).build())


def _require_tensorflow() -> None:
    try:
        import tensorflow  # noqa: F401  # only whether it is there
    except ImportError:
        raise MissingDependencyError(
            "stream() needs TensorFlow, which is not installed",
            hint="pip install 'gpuconf[tensorflow]', or gpuconf.images.sequence for other backends",
        ) from None
