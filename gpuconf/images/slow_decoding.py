"""Images that the graph leaves to Python: PNGs, rotated or large JPEGs, and all other formats.

TensorFlow still decodes and resizes JPEGs and PNGs, so that the values are the same.  Pillow reads
orientations and the other formats.  Each function is traced when it is first needed.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from gpuconf.errors import GpuconfError
from gpuconf.images.failures import ImageError
from gpuconf.images.memory_plan import MemoryPlan, decoding_bytes
from gpuconf.images.options import Picture
from gpuconf.images.pillow_reading import DecodeLimits, read_orientation, read_picture
from gpuconf.images.resizing import JPEG, RATIOS, decode_jpeg, reduction, resize, turn

# A PNG's first chunk: sides, bit depth 8 or 16, type 0 greyscale or 2 RGB; no palette and no alpha.
_PLAIN_PNG = re.compile(rb"\x89PNG\r\n\x1a\n.{4}IHDR(.{8})[\x08\x10][\x00\x02]", re.DOTALL)
# Such an image may still have a transparent color, or an orientation, which Pillow handles.
_SPECIAL_PNG = re.compile(rb"tRNS|eXIf")
_CHUNKS_BYTES = 1 << 12
_EXIF = b"Exif\x00"
_EXIF_WITHIN_BYTES = 1 << 16


class SlowDecoder:
    """Reads one image at a time in each thread, and large ones alone.

    ``out_of_memory`` holds the files that last failed for lack of memory: tf.data drops failed
    elements together with their errors.
    """

    def __init__(self, picture: Picture, plan: MemoryPlan) -> None:
        self._picture = picture
        self._lanes = DecodeLimits(plan.decoding_bytes, plan.alone_bytes)
        self.out_of_memory: set[bytes] = set()

    def decode(self, path: bytes) -> Any:
        """The image in this file as float32 at the final size.

        Every other failure becomes an ImageError: TensorFlow prints the message of an exception,
        and a message may contain a file name that is not valid text.
        """
        import tensorflow as tf

        self.out_of_memory.discard(path)
        try:
            with tf.device("CPU:0"):
                return self._decode(path)
        except GpuconfError:
            raise
        except (MemoryError, tf.errors.ResourceExhaustedError):
            self.out_of_memory.add(path)
            raise
        except Exception as error:
            name = os.fsdecode(path)
            raise ImageError(f"{name}: {type(error).__name__}", path=name) from None

    def _decode(self, path: bytes) -> Any:
        import tensorflow as tf

        data = tf.io.read_file(path).numpy()
        if data.startswith(JPEG):
            rows, columns, channels = tf.io.extract_jpeg_shape(data).numpy().tolist()
            if channels != 4:  # CMYK, which Pillow converts
                made = partial(self._jpeg, data, _orientation(data))
                return self._alone_if_large(path, data, rows, columns, made)
        elif (sides := _plain_sides(data)) is not None:
            return self._alone_if_large(path, data, *sides, partial(self._png, data))
        return read_picture(path, self._picture, self._lanes, self._fit)

    def _alone_if_large(
        self, path: bytes, data: bytes, rows: int, columns: int, made: Callable[[], Any]
    ) -> Any:
        needed = decoding_bytes(rows * columns, len(data), self._picture.bytes_per_pixel)
        what = f"an image of {columns} × {rows} pixels"
        with self._lanes.enter(needed, os.fsdecode(path), what):
            return made().numpy()

    @cached_property
    def _jpeg(self) -> Any:
        """Return a function of a JPEG's bytes and orientation."""
        import tensorflow as tf

        picture = self._picture

        def jpeg(data: Any, orientation: Any) -> Any:
            shape, lies = tf.io.extract_jpeg_shape(data), orientation >= 5
            # From 5 on, the image lies on its side: its rows become columns.
            rows, columns = tf.where(lies, shape[1], shape[0]), tf.where(lies, shape[0], shape[1])
            ways = [partial(decode_jpeg, data, ratio, picture) for ratio in RATIOS]
            decoded = tf.switch_case(reduction(rows, columns, picture), ways)
            return resize(turn(decoded, orientation), picture)

        return _traced(jpeg, tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int32))

    @cached_property
    def _png(self) -> Any:
        """Return a function of a PNG's bytes; 16 bits are scaled to 8, as a viewer shows them."""
        import tensorflow as tf

        def png(data: Any) -> Any:
            return resize(tf.io.decode_png(data, self._picture.channels), self._picture)

        return _traced(png, tf.TensorSpec([], tf.string))

    @cached_property
    def _resize(self) -> Any:
        import tensorflow as tf

        spec = tf.TensorSpec([None, None, self._picture.channels], tf.uint8)
        return _traced(partial(resize, picture=self._picture), spec)

    def _fit(self, image: Any) -> Any:
        """Convert a Pillow image to the final size."""
        import numpy as np

        values = np.asarray(image)
        return self._resize(values.reshape(*values.shape[:2], self._picture.channels)).numpy()


def _traced(function: Callable[..., Any], *signature: Any) -> Any:
    import tensorflow as tf

    # A partial, because TensorFlow counts traces by a function's code, and warns.
    return tf.function(partial(function), input_signature=signature, autograph=False)


def _orientation(data: bytes) -> int:
    """The EXIF orientation; Pillow is called only if there is EXIF data."""
    return read_orientation(data) if _EXIF in data[:_EXIF_WITHIN_BYTES] else 1


def _plain_sides(data: bytes) -> tuple[int, int] | None:
    """Rows and columns of a plain PNG; None for all other files."""
    found = _PLAIN_PNG.match(data)
    if found is None or _SPECIAL_PNG.search(data, 0, _CHUNKS_BYTES):
        return None
    columns, rows = struct.unpack(">II", found[1])
    return rows, columns
