"""JPEGs decoded at a fraction of their size, rotated upright, and any image resized, in TensorFlow.

Resizing uses `tf.image.resize` and gives the same values as Keras's own loader. Edges are cropped
before resizing or padded after it, if requested. Only a much larger image is averaged
(``antialias``); Keras never averages.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.images.options import Picture

# The first bytes of a JPEG.
JPEG = b"\xff\xd8\xff"
# libjpeg can decode at a half, a quarter or an eighth of the height and width.
RATIOS = (1, 2, 4, 8)
# Each output pixel is interpolated from four.  If these are less than half of all pixels, the image
# is averaged instead, which takes several times as long.
_SEEN_TWICE_OVER = 2 * 4


def reduction(rows: Any, columns: Any, picture: Picture) -> Any:
    """The index of the smallest ratio that keeps an image at least as large as the final size.

    At 1/2, 1/4 or 1/8, libjpeg computes fewer pixels, each the average of 4, 16 or 64. This is less
    work, and avoids the aliasing that comes from sampling only a few pixels.
    """
    import tensorflow as tf

    if not picture.averages:
        return tf.constant(0)
    times = tf.minimum(rows // picture.height, columns // picture.width)
    return tf.reduce_sum(tf.cast(times >= tf.constant(RATIOS[1:], times.dtype), tf.int32))


def decode_jpeg(data: Any, ratio: int, picture: Picture) -> Any:
    """Decode a JPEG's bytes to uint8 (rows, columns, channels), at 1/ratio of height and width."""
    import tensorflow as tf

    image = tf.io.decode_jpeg(data, channels=min(picture.channels, 3), ratio=ratio)
    if picture.channels != 4:
        return image
    return tf.concat([image, tf.fill(tf.shape(image[..., :1]), tf.constant(255, tf.uint8))], 2)


def turn(image: Any, orientation: Any) -> Any:
    """Make the image upright, using its EXIF orientation 1 to 8: mirrored, rotated, or both.

    From 5 on, rows and columns are swapped first.
    """
    import tensorflow as tf

    swapped = tf.transpose(image, tf.where(orientation >= 5, [1, 0, 2], [0, 1, 2]))
    upside_down = tf.reduce_any(orientation == [3, 4, 7, 8])
    mirrored = tf.reduce_any(orientation == [2, 3, 6, 7])
    return tf.reverse(swapped, tf.boolean_mask([0, 1], [upside_down, mirrored]))


def resize(image: Any, picture: Picture) -> Any:
    """Resize a uint8 image of any size (rows, columns, channels) to the final size, float32."""
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
    """Do the same for an image that is not much larger than the final size."""
    return _resize(_cropped(image, picture) if picture.crop_to_aspect_ratio else image, picture)


def averaging_pixels(picture: Picture) -> int:
    """The number of pixels above which an image is averaged."""
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
    """The largest central crop with the final aspect ratio."""
    import tensorflow as tf

    rows, columns = tf.unstack(tf.shape(image)[:2])
    height = tf.minimum(rows, columns * picture.height // picture.width)
    width = tf.minimum(columns, rows * picture.width // picture.height)
    height, width = tf.maximum(height, 1), tf.maximum(width, 1)
    top, left = (rows - height) // 2, (columns - width) // 2
    return image[top : top + height, left : left + width]
