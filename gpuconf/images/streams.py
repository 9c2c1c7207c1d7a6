"""`stream`: a `tf.data.Dataset` of images that holds paths, and only pictures in work."""

from __future__ import annotations

from typing import Any

from gpuconf.errors import MissingDependencyError
from gpuconf.images.answering import answering
from gpuconf.images.pipeline import Pipeline
from gpuconf.images.request import Request


@answering(Request)
def stream(request: Request) -> Any:
    """Batches of images from files, for ``fit``, ``evaluate`` and ``predict``.

    ``paths`` is a folder, with a folder for each class or without; a ``.csv``, ``.tsv`` or
    ``.parquet`` list; a DataFrame; or a sequence of paths.  ``size`` is (height, width).  Each
    batch is float32 of the shape (batch_size, height, width, channels), values 0 to 255 before
    ``augment`` and ``scale``, and the labels, if there are any.  What the others mean is in
    docs/images.md.

    Returns a `tf.data.Dataset` with ``class_names``, ``file_paths``, ``memory_plan`` and
    ``skipped``; with ``subset="both"`` two, for training and validation.

    Raises UsageError for arguments that do not go together, and ImageError with the name of the
    file for one that is missing or empty.  A broken one is named while iterating, in an error
    that TensorFlow makes of the ImageError: InvalidArgumentError.
    """
    request.check()
    decoder = f"tensorflow {_tensorflow().__version__}"
    return request.make(lambda part: Pipeline(part).build(), decoder=decoder)


def _tensorflow() -> Any:
    try:
        import tensorflow
    except ImportError:
        raise MissingDependencyError(
            "stream() needs TensorFlow, which is not installed",
            hint="pip install 'gpuconf[tensorflow]', or gpuconf.images.sequence for other backends",
        ) from None
    return tensorflow
