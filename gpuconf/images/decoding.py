"""Turns a file name into an image of the final size with TensorFlow, for plain JPEGs.

Everything else goes to Python (`slow_decoding`).  The graph is small on purpose: the time to build
it and to start an epoch grows with its size, and branches cost time even if not taken.  Failures
here are TensorFlow errors, which do not name the file; see `streams`.
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
from gpuconf.support.pipeline_calls import ending_early

# Where a camera stores the orientation: its tag, type and count, then 2 to 8, in either byte order.
# Such bytes may be there by chance, so a match only means that Pillow checks the file.  EXIF data
# come first, with the tag in their first directory.
_MAYBE_TURNED = (
    r"\C*(\x12\x01\x03\x00\x01\x00\x00\x00[\x02-\x08]\x00"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00[\x02-\x08])\C*"
)
_HEAD_BYTES = 1 << 12


def make_decode(picture: Picture, plan: MemoryPlan, slow: SlowDecoder) -> Callable[[Any], Any]:
    """Return a function from a file name (scalar string) to its float32 image at the final size."""
    import numpy as np
    import tensorflow as tf

    # An error would be dropped, and all remaining files would still be read.
    read = ending_early(slow.decode, lambda _: np.full(picture.shape, np.nan, np.float32))

    def slowly(path: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(read, [path], tf.float32), picture.shape)

    def decode(path: Any) -> Any:
        data = tf.io.read_file(path)
        ratios = RATIOS if picture.averages else RATIOS[:1]
        way = tf.cond(
            tf.strings.substr(data, 0, len(JPEG)) == JPEG,
            lambda: _way(data, picture, plan.decoding_bytes, slow=len(ratios)),
            lambda: tf.constant(len(ratios)),
        )
        ways = [partial(_resized, data, ratio, picture) for ratio in ratios]
        return tf.switch_case(way, [*ways, lambda: slowly(path)])

    return decode


def _way(data: Any, picture: Picture, allowed_bytes: int, *, slow: int) -> Any:
    """The index of the ratio at which to decode this JPEG; ``slow`` for an unusual one."""
    import tensorflow as tf

    rows, columns, channels = tf.unstack(tf.io.extract_jpeg_shape(data, tf.int64))
    pixels, file_bytes = rows * columns, tf.cast(tf.strings.length(data), tf.int64)
    step = reduction(rows, columns, picture)
    is_unusual = (
        (decoding_bytes(pixels, file_bytes, picture.bytes_per_pixel) > allowed_bytes)
        | (channels == 4)  # CMYK
        | tf.strings.regex_full_match(tf.strings.substr(data, 0, _HEAD_BYTES), _MAYBE_TURNED)
    )
    if picture.averages:  # it stays large even when reduced: a panorama, or an enormous image
        limits = [averaging_pixels(picture) * ratio**2 for ratio in RATIOS]
        is_unusual |= pixels >= tf.gather(tf.constant(limits, tf.int64), step)
    return tf.where(is_unusual, slow, step)


def _resized(data: Any, ratio: int, picture: Picture) -> Any:
    return resize_plainly(decode_jpeg(data, ratio, picture), picture)
