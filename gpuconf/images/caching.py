"""Images at their final size, cached from the first epoch on: in memory, or as files in a folder.

Each image is cached separately under its index in the list.  The next epoch may therefore
have another order, and an epoch that ends early leaves nothing incomplete.  Values are
rounded to one byte.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from gpuconf.basics.terminal import say
from gpuconf.errors import UsageError
from gpuconf.images.options import Picture
from gpuconf.support.pipeline_calls import ending_early

IN_MEMORY = "memory"


class Cache(Protocol):
    """Stores images by their index in the list; called from several threads."""

    def get(self, place: int) -> Any | None:
        """Return the stored uint8 image, or None."""

    def put(self, place: int, image: Any) -> None:
        """Store a uint8 image."""


class MemoryCache:
    """Images in this process."""

    def __init__(self) -> None:
        self._images: dict[int, Any] = {}

    def get(self, place: int) -> Any | None:
        """Return the image, or None."""
        return self._images.get(place)

    def put(self, place: int, image: Any) -> None:
        """Store a copy: the array belongs to TensorFlow and is freed when this returns."""
        self._images[place] = image.copy()


class FolderCache:
    """One file per image, named after the source's path, size and time, and how it was made.

    A changed image is therefore decoded again.  Streams with other sizes or decoders, whose values
    differ slightly, can share the folder.
    """

    def __init__(self, folder: Path, paths: list[bytes], picture: Picture, decoder: str) -> None:
        self._folder = folder
        self._paths = paths
        self._picture = picture
        self._decoder = decoder
        self._refusals: list[OSError] = []  # the folder's errors; one thread reports the first

    def get(self, place: int) -> Any | None:
        """Return the image, or None if its file is missing or incomplete, as after a full disk."""
        import numpy as np

        file = self._file(place)
        try:
            values = None if file is None else np.fromfile(file, np.uint8)
        except OSError:
            return None
        shape = self._picture.shape
        whole = values is not None and values.size == shape[0] * shape[1] * shape[2]
        return values.reshape(shape) if values is not None and whole else None

    def put(self, place: int, image: Any) -> None:
        """Store the image; if writing fails, report it once and store no more."""
        file = self._file(place)
        if file is None or self._refusals:
            return
        try:
            _write(file, image.tobytes())
        except OSError as error:
            self._refusals.append(error)
            if self._refusals[0] is error:
                say(f"images: the cache in {self._folder} accepts no more images: {error}")

    def _file(self, place: int) -> Path | None:
        path = self._paths[place]
        try:
            found = os.stat(path)
        except OSError:  # a name that only TensorFlow understands, such as gs://
            return None
        image = os.path.abspath(path), found.st_size, found.st_mtime_ns
        facts = (*image, self._picture, self._decoder)
        digest = hashlib.sha256(repr(facts).encode()).hexdigest()
        return self._folder / digest[:2] / digest[2:34]


def _write(file: Path, data: bytes) -> None:
    """Write it under another name first, because another process may be reading."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
        os.replace(name, file)
    except BaseException:  # an interrupt, too
        os.unlink(name)
        raise


def make_cache(cache: Any, paths: list[bytes], picture: Picture, decoder: str) -> Cache | None:
    """Return the cache for None, ``"memory"``, or a folder, which is created if it is missing.

    ``decoder`` is the name and version of the library that decodes the images.
    """
    if cache is None:
        return None
    if cache == IN_MEMORY:
        return MemoryCache()
    if not isinstance(cache, (str, os.PathLike)) or not os.fspath(cache):
        raise UsageError(
            f"cache={cache!r} is neither None, 'memory' nor a folder", hint='cache="image-cache"'
        )
    folder = Path(os.fsdecode(cache)).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cache={os.fspath(cache)!r} cannot be a folder: {error}", hint='cache="image-cache"'
        ) from None
    return FolderCache(folder.absolute(), paths, picture, decoder)


def kept_or_made(
    cache: Cache, place: Any, make: Callable[[], Any], shape: tuple[int, int, int]
) -> Any:
    """TensorFlow operations that return the image at an index, from the cache or newly made."""
    import numpy as np
    import tensorflow as tf

    def get(place: Any) -> Any:
        found = cache.get(int(place))
        return np.zeros(0, np.uint8) if found is None else found

    def put(place: Any, image: Any) -> Any:
        cache.put(int(place), image)
        return np.int32(0)

    get_early = ending_early(get, lambda _: np.zeros(0, np.uint8))
    put_early = ending_early(put, lambda *_: np.int32(0))

    def made() -> Any:
        values = make()
        rounded = tf.saturate_cast(tf.round(values), tf.uint8)
        with tf.control_dependencies([tf.numpy_function(put_early, [place, rounded], tf.int32)]):
            # NaN means that the program is ending; there is no image.
            return tf.where(tf.math.is_nan(values), values, tf.cast(rounded, tf.float32))

    kept = tf.numpy_function(get_early, [place], tf.uint8)
    return tf.cond(tf.size(kept) > 0, lambda: tf.cast(tf.reshape(kept, shape), tf.float32), made)
