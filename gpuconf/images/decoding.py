"""A file's name to a picture of the final size, as operations of TensorFlow, for plain JPEGs.

Everything else goes to Python (`slow_decoding`).  The graph is kept small, because building it and
starting each epoch cost time by its size, and so do ways that are not taken, for each picture.
What fails here fails with an error of TensorFlow's, which does not name the file; see `pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuconf.images.jpeg import JPEG, RATIOS, decode_jpeg, reduction
from gpuconf.images.memory_plan import MemoryPlan, decoding_bytes
from gpuconf.images.options import Picture
from gpuconf.images.resizing import averaging_pixels, resize_plainly
from gpuconf.images.slow_decoding import SlowDecoder
from gpuconf.pipeline_calls import ending_early

# Where a camera puts the orientation: its tag, type and count, then 2 to 8; in either byte order.
# Chance can make such bytes too: it only says that Pillow is to look.  EXIF data stand at the
# beginning, the tag in their first directory.
_MAYBE_TURNED = (
    r"\C*(\x12\x01\x03\x00\x01\x00\x00\x00[\x02-\x08]\x00"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00[\x02-\x08])\C*"
)
_HEAD_BYTES = 1 << 12


def make_decode(picture: Picture, plan: MemoryPlan, slow: SlowDecoder) -> Callable[[Any], Any]:
    """What makes the float32 picture, of the final size, of a file's name (a scalar string)."""
    import numpy as np
    import tensorflow as tf

    # An error would be dropped, and the next file read, to the last one.
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
    """A JPEG: one of four quick ways for most, chosen at once, because each choice costs time."""
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
    """Whether it must be averaged even after that step: a panorama, or an enormous picture."""
    import tensorflow as tf

    if not picture.averages:
        return tf.constant(False)
    limits = [averaging_pixels(picture) * ratio**2 for ratio in RATIOS]
    return rows * columns >= tf.constant(limits, tf.int64)[step]


def _resized(data: Any, ratio: int, picture: Picture) -> Any:
    return resize_plainly(decode_jpeg(data, ratio, picture), picture)
