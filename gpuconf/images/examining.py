"""What is wrong with a file that gave no picture, told by reading it once more."""

from __future__ import annotations

import os

from gpuconf.errors import MissingDependencyError
from gpuconf.images.failures import ImageError
from gpuconf.images.listing import what_is_wrong
from gpuconf.images.options import Picture
from gpuconf.images.pillow_reading import Lanes, read_picture

# How files begin that TensorFlow decodes by itself.
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG")


def examine(path: bytes, picture: Picture, alone_bytes: int) -> ImageError:
    """The error that names the file and says why it gave no picture.

    Raises MissingDependencyError where only Pillow is missing, and MemoryError where only memory
    is: nothing is wrong with the file, and skipping it would lose all of its kind.
    """
    name = os.fsdecode(path)
    try:
        read_picture(path, picture, Lanes(alone_bytes, alone_bytes), lambda image: image)
    except ImageError as error:
        return error
    except MissingDependencyError:
        problem = what_is_wrong(path)
        if problem is None and not _is_tensorflows(path):
            raise
        return ImageError(f"{name}: {problem or 'TensorFlow cannot decode it'}", path=name)
    return ImageError(
        f"{name}: could not be read, although Pillow can read it now",
        hint=f"save it anew: Image.open({name!r}).convert('RGB').save({name!r}); "
        f"or, if memory was short for a moment: a smaller host_limit",
        path=name,
    )


def _is_tensorflows(path: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(4).startswith(_BEGINNINGS)
