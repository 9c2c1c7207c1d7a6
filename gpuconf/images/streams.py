"""`stream`: a `tf.data.Dataset` of images that holds paths, and only the images in progress.

TensorFlow's decoders do not report which file they failed on, and an exception cannot be caught
inside a graph.  So a failed image is dropped, and every other one carries its position.  If
positions are missing from a batch, Python examines their files.  This costs nothing for an ordinary
image; calling Python for each would take half as long as decoding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from gpuconf.errors import MissingDependencyError
from gpuconf.images.decoding import make_decode
from gpuconf.images.failures import SKIP_HINT, ImageError, out_of_memory
from gpuconf.images.pillow_reading import examine
from gpuconf.images.request import ImageRequest, Part, answering
from gpuconf.images.slow_decoding import SlowDecoder
from gpuconf.support.pipeline_calls import ending_early

# Less than any epoch number.
_NO_EPOCH = -1
# The last position before an epoch's first batch.  Whatever its size, that batch does not seem to
# continue from here, so Python is called for it.
_BEFORE_FIRST = -2


@answering(ImageRequest)
def stream(request: ImageRequest) -> Any:
    """Batches of images from files, for ``fit``, ``evaluate`` and ``predict``.

    ``paths`` is a folder, with or without a folder for each class; a ``.csv`` or ``.tsv`` list; a
    DataFrame; or a sequence of paths.  ``size`` is (height, width).  Each
    batch is float32 of shape (batch_size, height, width, channels), with values 0 to 255 before
    ``augment`` and ``scale``, plus the labels, if there are any. docs/reference/images.md
    describes the other arguments.

    Returns a `tf.data.Dataset` with ``class_names``, ``file_paths``, ``memory_plan`` and
    ``skipped``; with ``subset="both"``, two of them, for training and validation.

    Raises UsageError for incompatible arguments, and ImageError with the name of a missing or empty
    file. A broken file is named during iteration, in an InvalidArgumentError that TensorFlow
    creates from the ImageError.
    """
    request.check()
    _check_tensorflow()
    return request.make(lambda part: Pipeline(part).build())


class Pipeline:
    """Makes the dataset for some images."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._request = part.request
        self._picture = part.request.picture
        self._paths = part.images.paths
        self._count = len(part.images.paths)
        self._slow = SlowDecoder(self._picture, part.plan)

    def build(self) -> Any:
        """The `tf.data.Dataset`, on the host even if there are GPUs."""
        import tensorflow as tf

        # Constants would be placed on a GPU, and every image with them.
        with tf.device("CPU:0"):
            dataset = self._checked(self._batched())
            if self._part.transforms or self._part.images.labels is None:
                dataset = dataset.map(_plain_graph(self._transformed))
            if not self._request.skips:
                dataset = dataset.apply(tf.data.experimental.assert_cardinality(self._batches()))
            return dataset.prefetch(self._part.plan.batches_waiting).with_options(_options())

    def _batches(self) -> int:
        whole, rest = divmod(self._count, self._request.batch_size)
        return whole + (1 if rest and not self._request.drop_remainder else 0)

    def _order(self, epoch: Any, places: Any) -> Any:
        """The indices of the files in this epoch; identical for the same epoch number."""
        import tensorflow as tf

        if not self._part.shuffle:
            return places
        seed = tf.stack([tf.constant(self._part.seed, tf.int64), epoch])
        return tf.random.experimental.stateless_shuffle(places, seed)

    def _positions(self) -> Any:
        """(epoch, position, file index), in a new order for each iteration."""
        import tensorflow as tf

        def one_epoch(epoch: Any) -> Any:
            positions = tf.range(self._count, dtype=tf.int64)
            epochs = tf.fill([self._count], epoch)
            order = self._order(epoch, positions)
            return tf.data.Dataset.from_tensor_slices((epochs, positions, order))

        epochs = tf.data.Dataset.random(seed=self._part.seed, rerandomize_each_iteration=True)
        return epochs.take(1).flat_map(_plain_graph(one_epoch))

    def _loaded(self) -> Any:
        """(epoch, position, image, label) of each readable file."""
        import tensorflow as tf

        paths, labels = tf.constant(self._paths, tf.string), self._labels()
        decode = make_decode(self._picture, self._part.plan, self._slow)

        def one(epoch: Any, position: Any, place: Any) -> Any:
            return epoch, position, decode(tf.gather(paths, place)), labels(place)

        loaded = self._positions().map(
            _plain_graph(one), num_parallel_calls=self._part.plan.workers, deterministic=True
        )
        return loaded.ignore_errors(log_warning=False)

    def _batched(self) -> Any:
        """The loaded images in batches, followed by an end mark.

        The end mark has a position without a file, which reveals files missing before it. It has
        more positions than any batch, which is how it is recognized, but no image.
        """
        import tensorflow as tf

        size = self._request.batch_size
        end = (
            tf.constant([_NO_EPOCH], tf.int64),
            tf.fill([size + 1], tf.constant(self._count, tf.int64)),
            tf.zeros([0, *self._picture.shape]),
            self._labels()(tf.zeros([0], tf.int64)),
        )
        return self._loaded().batch(size).concatenate(tf.data.Dataset.from_tensors(end))

    def _labels(self) -> Callable[[Any], Any]:
        """Return a function from indices to labels; without labels, it returns the indices."""
        import tensorflow as tf

        if self._part.images.labels is None:
            return lambda places: places
        values = tf.constant(self._part.images.labels.values)
        return lambda places: tf.gather(values, places)

    def _checked(self, batches: Any) -> Any:
        """(images, labels) of each batch, after a check for missing positions."""
        import numpy as np
        import tensorflow as tf

        size = self._request.batch_size
        look_at = ending_early(self._look, lambda *_: np.int64(self._count))

        def look(state: Any, batch: Any) -> Any:
            before, epoch = state
            epochs, positions, images, labels = batch
            epoch, last = tf.maximum(epoch, tf.reduce_max(epochs)), tf.reduce_max(positions)

            def looked_at() -> Any:
                looked = tf.numpy_function(look_at, [epoch, before, positions], tf.int64)
                return tf.ensure_shape(looked, [])  # otherwise TensorFlow traces everything again

            # A whole batch that continues from the one before has every file.  The result is part
            # of the state, so that no optimizer removes the check as unused.
            is_whole = (tf.size(positions) == size) & (last - before == size)
            last = tf.cond(is_whole, lambda: last, looked_at)
            return (last, epoch), (images, labels)

        start = tf.constant(_BEFORE_FIRST, tf.int64), tf.constant(_NO_EPOCH, tf.int64)
        checked = batches.scan(start, _plain_graph(look))
        least = size if self._request.drop_remainder else 1
        values = least * math.prod(self._picture.shape)
        return checked.filter(_plain_graph(lambda images, _: tf.size(images, tf.int64) >= values))

    def _look(self, epoch: Any, before: Any, positions: Any) -> Any:
        """Report the files whose positions are missing, and the beginning and end of an epoch.

        ``before`` is the last position so far.  Returns the last position after this batch.
        """
        import numpy as np

        if before == self._count:  # the end mark after a short batch, which already was the end
            return before
        if before == _BEFORE_FIRST:
            self._part.failures.begin_epoch()
        is_end = len(positions) != self._request.batch_size
        end = self._count if is_end else int(positions[-1])
        missing = sorted(set(range(max(int(before) + 1, 0), end)) - set(positions.tolist()))
        if missing:
            order = np.asarray(self._eager_order(epoch))
            self._fail([int(order[position]) for position in missing])
        if is_end:
            self._part.failures.end_epoch()
        return np.int64(end)

    def _eager_order(self, epoch: Any) -> Any:
        import tensorflow as tf

        with tf.device("CPU:0"):
            # If no file was read, the epoch is unknown, and any order will do.
            epoch = tf.constant(max(int(epoch), 0), tf.int64)
            return self._order(epoch, tf.range(self._count, dtype=tf.int64))

    def _fail(self, places: list[int]) -> None:
        """Raise an ImageError for the first of these files, or record them as skipped.

        Running out of memory always raises an error: tf.data keeps reading after an error, and all
        files in the failed batch would then be missing.
        """
        paths = [self._paths[place] for place in places]
        for path in filter(self._slow.out_of_memory.__contains__, paths):
            raise out_of_memory(os.fsdecode(path))
        for place, path in zip(places, paths, strict=True):
            error = examine(path, self._picture, self._part.plan.alone_bytes)
            if not self._request.skips:
                raise ImageError(error.message, hint=error.hint or SKIP_HINT, path=error.path)
            self._part.failures.note(place, os.fsdecode(path), error.reason)

    def _transformed(self, images: Any, labels: Any) -> Any:
        for transform in self._part.transforms:
            images = transform(images)
        return images if self._part.images.labels is None else (images, labels)


def _plain_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep AutoGraph from rewriting Python that must run during tracing."""
    import tensorflow as tf

    made: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return made


def _options() -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = True
    # There is nothing to tune: the plan sets workers and buffers.  Tuning costs a thread.
    options.autotune.enabled = False
    # There is nothing to rewrite either, and looking for it takes a third of an epoch's start.
    options.experimental_optimization.apply_default_optimizations = False
    # One thread for each image: splitting its work costs more than it gains.
    options.threading.max_intra_op_parallelism = 1
    return options


def _check_tensorflow() -> None:
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "stream() needs TensorFlow, which is not installed",
            hint="pip install 'gpuconf[tensorflow]'",
        ) from None
