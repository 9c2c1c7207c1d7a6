"""Images read by Pillow: any format it supports, upright, in 8 bits, with the requested channels.

It also reports why TensorFlow could not read a file, by reading the file once more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from typing import Any

from gpuconf.basics.units import sized
from gpuconf.errors import MissingDependencyError
from gpuconf.images.failures import ImageError, out_of_memory, printable
from gpuconf.images.listing import what_is_wrong
from gpuconf.images.memory_plan import PILLOW_BYTES_PER_PIXEL, decoding_bytes
from gpuconf.images.options import Picture

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_WHITE = (255, 255, 255, 255)
_ORIENTATION = 0x0112
# Formats that Pillow can reduce while decoding; others must be decoded in full.
_SHRINKABLE = ("JPEG", "MPO")
# The first bytes of files that TensorFlow decodes by itself.
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG")


class DecodeLimits:
    """Size limits: up to ``decoding_bytes`` alongside other images, up to ``alone_bytes`` alone."""

    def __init__(self, decoding_bytes: int, alone_bytes: int) -> None:
        self._decoding_bytes = decoding_bytes
        self._alone_bytes = alone_bytes
        self._alone = threading.Lock()

    def enter(self, size_bytes: int, path: str, what: str) -> AbstractContextManager[Any]:
        """Return the lock for one large image, or no lock; above all limits, raise ImageError."""
        if size_bytes > self._alone_bytes:
            raise ImageError(
                f"{path}: {what} needs up to {sized(size_bytes)} to decode, but host_limit "
                f"leaves {sized(self._alone_bytes)} for one image",
                hint='a larger host_limit, such as host_limit="8GiB"; or make the file smaller',
                path=path,
            )
        return self._alone if size_bytes > self._decoding_bytes else nullcontext()


def read_picture(
    path: bytes, picture: Picture, lanes: DecodeLimits, fit: Callable[[Any], Any]
) -> Any:
    """Read a file as an upright Pillow image in the channels' mode; return the result of ``fit``.

    A large JPEG is reduced by 2, 4 or 8 if it stays at least as large as the final size. Raises
    ImageError with the file name, MissingDependencyError, or MemoryError.
    """
    name = os.fsdecode(path)
    pillow = import_pillow(name)
    problem = what_is_wrong(path)
    if problem is not None:
        raise ImageError(f"{name}: {problem}", path=name)
    try:
        with open(path, "rb") as file:
            data = file.read()
        with pillow.open(BytesIO(data)) as image:
            what = f"an image of {image.width} × {image.height} pixels"
            with lanes.enter(_needed_bytes(image, picture, len(data)), name, what):
                return fit(_decode(image, picture))
    except ImageError as error:
        if error.path is None:
            raise ImageError(f"{name}: {error.message}", path=name) from None
        raise
    except pillow.UnidentifiedImageError:
        raise ImageError(f"{name}: {_what_it_is(data)}", path=name) from None
    except Exception as error:  # Pillow's plugins raise any type: SyntaxError, struct.error
        if isinstance(error, MemoryError) or "out of memory" in str(error):
            raise out_of_memory(name) from error
        raise ImageError(f"{name}: {_reason(error)}", path=name) from None


def _needed_bytes(image: Any, picture: Picture, file_bytes: int) -> int:
    reduces = picture.averages and image.format in _SHRINKABLE
    per_pixel = picture.bytes_per_pixel if reduces else PILLOW_BYTES_PER_PIXEL
    return decoding_bytes(image.width * image.height, file_bytes, per_pixel)


def read_orientation(data: bytes) -> int:
    """Return the EXIF orientation of a JPEG file's bytes, 1 to 8; 1 if there is none."""
    pillow = import_pillow("a JPEG with an EXIF orientation")
    try:
        with pillow.open(BytesIO(data)) as image:
            found = int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # ignore broken EXIF data; decoding detects a broken image
        return 1
    return found if 1 <= found <= 8 else 1


def import_pillow(name: str) -> Any:
    """``PIL.Image``, or a MissingDependencyError that names the file that needs it."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError(
            f"{printable(name)}: Pillow is needed for this image, as for all formats "
            f"except plain JPEG and PNG, but is not installed",
            hint="pip install 'gpuconf[images]'",
        ) from None
    return Image


def _decode(image: Any, picture: Picture) -> Any:
    from PIL import ImageOps

    if picture.averages and image.format in _SHRINKABLE:
        # Square, because the image may lie on its side until it is rotated upright.
        longer = max(picture.height, picture.width)
        image.draft(None, (longer, longer))
    image.seek(0)  # the first frame of an animation
    in_8_bits = _in_8_bits(image)
    if in_8_bits is image:
        in_8_bits = ImageOps.exif_transpose(image)
    return _with_channels(in_8_bits, picture.channels)


def _in_8_bits(image: Any) -> Any:
    """Scale 16-bit grayscale to 8 bits; Pillow's own conversion would clip it."""
    import numpy as np
    from PIL import Image

    # Older versions of Pillow open a 16-bit greyscale PNG as 32-bit integers.
    is_16_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG")
    if is_16_bits:
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ImageError(f"its pixel values have no known range (mode {image.mode})")
    return image


def _with_channels(image: Any, channels: int) -> Any:
    """Convert to the requested mode; transparency becomes white, unless alpha is a channel."""
    from PIL import Image

    transparent = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or (
        "transparency" in image.info and image.mode in ("P", "RGB", "L", "1")
    )
    if transparent and channels != 4:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, _WHITE), above)
    return image.convert(_MODES[channels])


def _what_it_is(data: bytes) -> str:
    """Describe a file that no decoder recognizes, based on its first bytes."""
    start = data[:16]
    for magic, kind in (
        (b"%PDF", "a PDF"), (b"<svg", "an SVG drawing"), (b"PK\x03\x04", "a ZIP archive"),
        (b"<!DO", "an HTML page"), (b"<htm", "an HTML page"), (b"version https://git-lfs",
         "a Git LFS pointer: git lfs pull"),
    ):  # fmt: skip
        if data.lstrip()[: len(magic)].lower() == magic.lower():
            return f"is {kind}, not an image"
    if b"ftyphei" in start or b"ftypmif" in start or b"ftypavif" in start:
        return "is HEIC or AVIF, which this version of Pillow cannot read; save it as JPEG"
    return f"is not an image; it begins with {start!r}"


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if "truncated" in text or "Truncated" in text or "end of" in text:
        return f"is truncated ({text})"
    return f"is broken ({text})"


def examine(path: bytes, picture: Picture, alone_bytes: int) -> ImageError:
    """Return the error that names the file and says why it cannot be read as an image.

    Raises MissingDependencyError or MemoryError if only Pillow or memory is missing: the file is
    intact, and skipping it would lose all files of its kind.
    """
    name = os.fsdecode(path)
    try:
        read_picture(path, picture, DecodeLimits(alone_bytes, alone_bytes), lambda image: image)
    except ImageError as error:
        return error
    except MissingDependencyError:
        problem = what_is_wrong(path)
        if problem is None and not _is_tensorflows(path):
            raise
        return ImageError(f"{name}: {problem or 'TensorFlow cannot decode it'}", path=name)
    return ImageError(
        f"{name}: could not be read before, but Pillow can read it now",
        hint=f"save it again: Image.open({name!r}).convert('RGB').save({name!r}); "
        f"or, if memory was short for a moment, set a smaller host_limit",
        path=name,
    )


def _is_tensorflows(path: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(4).startswith(_BEGINNINGS)
