"""To the final size, as operations of TensorFlow, with the values of Keras's own loader.

That is `tf.image.resize`, after cutting edges off or before adding them where that is asked for.
Only where a picture is much larger is it averaged (``antialias``), which Keras does not do.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.images.options import Picture

# A result is made of four pixels.  Where these would be less than half of all, it is averaged
# instead, which takes several times as long.
_SEEN_TWICE_OVER = 2 * 4


def resize(image: Any, picture: Picture) -> Any:
    """A uint8 image of any size (rows, columns, channels) to the final size, float32."""
    import tensorflow as tf

    if picture.crop_to_aspect_ratio:
        image = _cropped(image, picture)
    if not picture.averages:
        return _resize(image, picture)
    much_larger = tf.size(image) // picture.channels >= averaging_pixels(picture)
    return tf.cond(
        much_larger,
        partial(_resize, image, picture, antialias=True),
        partial(_resize, image, picture),
    )


def resize_plainly(image: Any, picture: Picture) -> Any:
    """The same of an image that is known not to be much larger."""
    return _resize(_cropped(image, picture) if picture.crop_to_aspect_ratio else image, picture)


def averaging_pixels(picture: Picture) -> int:
    """From so many pixels on an image is averaged."""
    return _SEEN_TWICE_OVER * picture.height * picture.width


def _resize(image: Any, picture: Picture, *, antialias: bool = False) -> Any:
    import tensorflow as tf

    options = {"method": picture.interpolation, "antialias": antialias}
    if picture.pad_to_aspect_ratio:
        resized = tf.image.resize_with_pad(image, picture.height, picture.width, **options)
    else:
        resized = tf.image.resize(image, [picture.height, picture.width], **options)
    return tf.cast(resized, tf.float32)


def _cropped(image: Any, picture: Picture) -> Any:
    """The largest part in the middle with the final proportions."""
    import tensorflow as tf

    rows, columns = tf.unstack(tf.shape(image)[:2])
    height = tf.minimum(rows, columns * picture.height // picture.width)
    width = tf.minimum(columns, rows * picture.width // picture.height)
    height, width = tf.maximum(height, 1), tf.maximum(width, 1)
    top, left = (rows - height) // 2, (columns - width) // 2
    return image[top : top + height, left : left + width]
