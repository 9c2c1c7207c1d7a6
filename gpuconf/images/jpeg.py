"""JPEGs, as operations of TensorFlow: decoded at a part of their size, and turned upright."""

from __future__ import annotations

from typing import Any

from gpuconf.images.options import Picture

# How a JPEG begins.
JPEG = b"\xff\xd8\xff"
# libjpeg can decode one half, a quarter or an eighth as high and wide.
RATIOS = (1, 2, 4, 8)


def reduction(rows: Any, columns: Any, picture: Picture) -> Any:
    """Which of the ratios leaves a picture at least as large as the final size.

    With 1/2, 1/4 or 1/8 libjpeg computes fewer pixels, each the average of 4, 16 or 64: less
    work, and no aliasing, which sampling a few of all pixels would give.
    """
    import tensorflow as tf

    if not picture.averages:
        return tf.constant(0)
    times = tf.minimum(rows // picture.height, columns // picture.width)
    return tf.add_n([tf.cast(times >= ratio, tf.int32) for ratio in RATIOS[1:]])


def decode_jpeg(data: Any, ratio: int, picture: Picture) -> Any:
    """A JPEG's bytes as uint8 (rows, columns, channels), as high and wide as 1/ratio."""
    import tensorflow as tf

    image = tf.io.decode_jpeg(data, channels=min(picture.channels, 3), ratio=ratio)
    if picture.channels != 4:
        return image
    return tf.concat([image, tf.fill(tf.shape(image[..., :1]), tf.constant(255, tf.uint8))], 2)


def turn(image: Any, orientation: Any) -> Any:
    """Upright, by its EXIF orientation 1 to 8: mirrored, turned, or both.

    From 5 on rows and columns change places first.
    """
    import tensorflow as tf

    swapped = tf.transpose(image, tf.where(orientation >= 5, [1, 0, 2], [0, 1, 2]))
    upside_down = tf.reduce_any(orientation == [3, 4, 7, 8])
    mirrored = tf.reduce_any(orientation == [2, 3, 6, 7])
    return tf.reverse(swapped, tf.boolean_mask([0, 1], [upside_down, mirrored]))
