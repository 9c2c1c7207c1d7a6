"""`sequence`: a `keras.utils.PyDataset` of images, read by Pillow in threads, without TensorFlow.

For Keras on JAX or PyTorch, where importing TensorFlow would cost memory and, by default, take the
GPU.  Keras 2 calls the class Sequence.
"""

from __future__ import annotations

import functools
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpuconf.errors import MissingDependencyError, UsageError
from gpuconf.images.failures import SKIP_HINT, ImageError
from gpuconf.images.options import check_choice
from gpuconf.images.pillow_reading import Lanes, import_pillow, read_picture
from gpuconf.images.request import ImageRequest, Part, answering

# Keras's names mapped to Pillow's; Pillow always averages when it reduces an image.
_RESAMPLINGS = {
    "bilinear": "BILINEAR",
    "nearest": "NEAREST",
    "bicubic": "BICUBIC",
    "area": "BOX",
    "lanczos3": "LANCZOS",
}


@answering(ImageRequest)
def sequence(request: ImageRequest) -> Any:
    """Batches of images from files as a `keras.utils.PyDataset`, for Keras on any backend.

    Arguments and results are those of `stream`, as numpy arrays.  The values differ slightly,
    because Pillow decodes and resizes.  Skipped files make a batch smaller.

    Raises UsageError, ImageError with the file name (also during training), and
    MissingDependencyError without Pillow or Keras.
    """
    request.check()
    check_choice("interpolation", request.interpolation, tuple(_RESAMPLINGS))
    if not request.antialias:
        raise UsageError(
            "antialias=False is for stream(): Pillow always averages when it shrinks a picture",
            hint='interpolation="nearest" takes single pixels',
        )
    decoder = f"pillow {import_pillow('sequence()').__version__}"
    return request.make(_sequence_class(), decoder=decoder)


class ImageBatches:
    """Batches of a part's images by number, in an order that changes with each epoch."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._picture = part.request.picture
        self._batch_size = part.request.batch_size
        self._lanes = Lanes(part.plan.decoding_bytes, part.plan.alone_bytes)
        self._threads = ThreadPoolExecutor(part.plan.workers, thread_name_prefix="gpuconf-images")
        self._epoch = 0
        self._order = self._drawn()
        part.failures.begin_epoch()

    def __len__(self) -> int:
        whole, rest = divmod(len(self._order), self._batch_size)
        return whole + (1 if rest and not self._part.request.drop_remainder else 0)

    def end_epoch(self, *, complete: bool = True) -> None:
        """Draw the next epoch's order; after a complete epoch, report the skipped files."""
        self._epoch += 1
        self._order = self._drawn()
        if complete:
            self._part.failures.end_epoch()
        else:
            self._part.failures.begin_epoch()

    def batch(self, number: int) -> Any:
        """Images, and any labels, as numpy arrays; raises ImageError if none can be read.

        Keras needs a batch for each number.  If all files of a batch are skipped, it contains the
        next readable image.
        """
        import numpy as np

        if not 0 <= number < len(self):
            raise IndexError(f"batch {number} of {len(self)}")
        first = number * self._batch_size
        places = self._order[first : first + self._batch_size]
        read = list(self._threads.map(self._read_or_skip, places.tolist()))
        kept = [index for index, picture in enumerate(read) if picture is not None]
        if not kept:
            places, read, kept = *self._one_after(first + self._batch_size), [0]
        images: Any = np.stack([read[index] for index in kept]).astype(np.float32)
        for transform in self._part.transforms:
            images = transform(images)
        images = np.asarray(images)
        labels = self._part.images.labels
        return images if labels is None else (images, self._vectors(labels.values[places[kept]]))

    def _one_after(self, position: int) -> tuple[Any, list[Any]]:
        """Index and image of the next readable file from this position on."""
        import numpy as np

        for place in np.roll(self._order, -min(position, len(self._order))):
            picture = self._read_or_skip(int(place))
            if picture is not None:
                return np.array([place]), [picture]
        raise self._part.failures.none_left()

    def _drawn(self) -> Any:
        import numpy as np

        count = len(self._part.images.paths)
        if not self._part.shuffle:
            return np.arange(count)
        return np.random.default_rng([self._part.seed, self._epoch]).permutation(count)

    def _read_or_skip(self, place: int) -> Any:
        try:
            return self._read(place)
        except ImageError as error:
            name = os.fsdecode(self._part.images.paths[place])
            if not self._part.request.skips:
                hint = error.hint or SKIP_HINT
                raise ImageError(error.message, hint=hint, path=error.path) from None
            self._part.failures.note(place, name, error.reason)
            return None

    def _read(self, place: int) -> Any:
        cache = self._part.cache
        kept = None if cache is None else cache.get(place)
        if kept is not None:
            return kept
        path = self._part.images.paths[place]
        image = read_picture(path, self._picture, self._lanes, self._fitted)
        if cache is not None:
            cache.put(place, image)
        return image

    def _fitted(self, image: Any) -> Any:
        """A Pillow image as a uint8 array of the final size."""
        import numpy as np
        from PIL import Image, ImageOps

        resampling = Image.Resampling[_RESAMPLINGS[self._picture.interpolation]]
        size = self._picture.width, self._picture.height
        if self._picture.crop_to_aspect_ratio:
            fitted = ImageOps.fit(image, size, resampling)
        elif self._picture.pad_to_aspect_ratio:
            fitted = ImageOps.pad(image, size, resampling)
        else:
            fitted = image.resize(size, resampling)
        return np.asarray(fitted).reshape(self._picture.shape)

    def _vectors(self, labels: Any) -> Any:
        import numpy as np

        known = self._part.images.labels
        mode = self._part.request.label_mode
        if mode == "categorical" and known is not None and known.class_count is not None:
            return np.eye(known.class_count, dtype=np.float32)[labels]
        return labels.astype(np.float32)[:, None] if mode == "binary" else labels


@functools.cache
def _sequence_class() -> Any:
    """The class for the installed Keras; made once, at its first use."""
    base, options = _base()

    class ImageSequence(base):  # type: ignore[misc,valid-type]
        """`ImageBatches` with Keras's interface."""

        def __init__(self, part: Part) -> None:
            # Two batches are read at a time, by the same threads, so that one is always ready.
            given = {"workers": 2, "max_queue_size": part.plan.batches_waiting} if options else {}
            super().__init__(**given)
            self._batches = ImageBatches(part)

        def __len__(self) -> int:
            return len(self._batches)

        def __getitem__(self, number: int) -> Any:
            return self._batches.batch(number)

        def on_epoch_end(self) -> None:
            self._batches.end_epoch(complete=not _only_begins())

    return ImageSequence


def _only_begins() -> bool:
    """Whether Keras 3 calls ``on_epoch_end`` only to begin, from ``EpochIterator.reset``.

    Some batches were read before to build the model, but no epoch has ended.  Only the caller
    distinguishes the two: all batches of a small data set may have been read.
    """
    adapter = sys._getframe(2)
    return adapter.f_back is not None and adapter.f_back.f_code.co_name == "reset"


def _base() -> tuple[Any, bool]:
    """Keras's class, and whether it takes options."""
    try:
        import keras
    except ImportError:
        raise MissingDependencyError(
            "sequence() needs Keras, which is not installed", hint="pip install keras"
        ) from None
    if hasattr(keras.utils, "PyDataset"):
        return keras.utils.PyDataset, True
    if hasattr(keras.utils, "Sequence"):
        return keras.utils.Sequence, False
    raise UsageError(
        f"this version of Keras ({keras.__version__}) has neither PyDataset nor Sequence",
        hint="pip install --upgrade keras",
    )
