"""A file's name to a picture of the final size, as operations of TensorFlow, for plain JPEGs.

Everything else goes to Python (`slow_decoding`).  The graph is small on purpose: the time to build
it and to start an epoch grows with its size, and branches cost time even if not taken.
What fails here fails with an error of TensorFlow's, which does not name the file; see `streams`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuconf.images.memory_plan import MemoryPlan, decoding_bytes
from gpuconf.images.options import Picture
from gpuconf.images.resizing import (
    JPEG,
    RATIOS,
    averaging_pixels,
    decode_jpeg,
    reduction,
    resize_plainly,
)
from gpuconf.images.slow_decoding import SlowDecoder
from gpuconf.pipeline_calls import ending_early

# Where a camera puts the orientation: its tag, type and count, then 2 to 8; in either byte order.
# Such bytes may be there by chance: a match only means that Pillow has a look.  EXIF data come
# first, with the tag in their first directory.
_MAYBE_TURNED = (
    r"\C*(\x12\x01\x03\x00\x01\x00\x00\x00[\x02-\x08]\x00"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00[\x02-\x08])\C*"
)
_HEAD_BYTES = 1 << 12


def make_decode(picture: Picture, plan: MemoryPlan, slow: SlowDecoder) -> Callable[[Any], Any]:
    """A function from a file's name (a scalar string) to its float32 picture of the final size."""
    import numpy as np
    import tensorflow as tf

    # An error would be dropped, and all files up to the last one still be read.
    read = ending_early(slow.decode, lambda _: np.full(picture.shape, np.nan, np.float32))

    def slowly(path: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(read, [path], tf.float32), picture.shape)

    def decode(path: Any) -> Any:
        data = tf.io.read_file(path)
        return tf.cond(
            tf.strings.substr(data, 0, len(JPEG)) == JPEG,
            lambda: _jpeg(path, data, picture, plan.decoding_bytes, slowly),
            lambda: slowly(path),
        )

    return decode


def _jpeg(
    path: Any, data: Any, picture: Picture, allowed_bytes: int, slowly: Callable[[Any], Any]
) -> Any:
    """A JPEG, most in one of four quick ways; one choice for all, because each costs time."""
    import tensorflow as tf

    shape = tf.io.extract_jpeg_shape(data)
    rows, columns = tf.cast(shape[0], tf.int64), tf.cast(shape[1], tf.int64)
    file_bytes = tf.cast(tf.strings.length(data), tf.int64)
    needed = decoding_bytes(rows * columns, file_bytes, picture.bytes_per_pixel)
    head = tf.strings.substr(data, 0, _HEAD_BYTES)
    step = reduction(rows, columns, picture)
    is_usual = (
        (needed <= allowed_bytes)
        & (shape[2] != 4)  # CMYK
        & tf.logical_not(tf.strings.regex_full_match(head, _MAYBE_TURNED))
        & tf.logical_not(_stays_large(rows, columns, step, picture))
    )
    ways = [partial(_resized, data, ratio, picture) for ratio in RATIOS]
    return tf.switch_case(tf.where(is_usual, step, len(RATIOS)), [*ways, lambda: slowly(path)])


def _stays_large(rows: Any, columns: Any, step: Any, picture: Picture) -> Any:
    """Whether it must be averaged even after this reduction: a panorama, or an enormous picture."""
    import tensorflow as tf

    if not picture.averages:
        return tf.constant(False)
    limits = [averaging_pixels(picture) * ratio**2 for ratio in RATIOS]
    return rows * columns >= tf.constant(limits, tf.int64)[step]


def _resized(data: Any, ratio: int, picture: Picture) -> Any:
    return resize_plainly(decode_jpeg(data, ratio, picture), picture)
