"""`stream`: a `tf.data.Dataset` of images that holds paths, and only the pictures in work.

TensorFlow's decoders do not say which file they failed on, and an exception cannot be caught
inside a graph.  So a picture that fails is dropped, and every other one carries its position.  If
positions are missing from a batch, Python looks at their files.  That costs an ordinary picture
nothing; calling Python for each would cost half as much as decoding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from gpuconf.errors import MissingDependencyError
from gpuconf.images.caching import kept_or_made
from gpuconf.images.decoding import make_decode
from gpuconf.images.failures import SKIP_HINT, ImageError, out_of_memory
from gpuconf.images.pillow_reading import examine
from gpuconf.images.request import ImageRequest, Part, answering
from gpuconf.images.slow_decoding import SlowDecoder
from gpuconf.images.transforms import label_vectors
from gpuconf.pipeline_calls import ending_early

# Less than any number that an epoch may have.
_NO_EPOCH = -1
# The last position before an epoch's first batch.  However large that batch is, it does not seem
# to go on from here, so Python is called for it.
_BEFORE_FIRST = -2


@answering(ImageRequest)
def stream(request: ImageRequest) -> Any:
    """Batches of images from files, for ``fit``, ``evaluate`` and ``predict``.

    ``paths`` is a folder, with a folder for each class or without; a ``.csv``, ``.tsv`` or
    ``.parquet`` list; a DataFrame; or a sequence of paths.  ``size`` is (height, width).  Each
    batch is float32 of the shape (batch_size, height, width, channels), values 0 to 255 before
    ``augment`` and ``scale``, and the labels, if there are any.  What the others mean is in
    docs/images.md.

    Returns a `tf.data.Dataset` with ``class_names``, ``file_paths``, ``memory_plan`` and
    ``skipped``; with ``subset="both"`` two, for training and validation.

    Raises UsageError for arguments that do not go together, and ImageError with the name of the
    file for one that is missing or empty.  A broken one is named while iterating, in an error
    that TensorFlow makes of the ImageError: InvalidArgumentError.
    """
    request.check()
    decoder = f"tensorflow {_tensorflow().__version__}"
    return request.make(lambda part: Pipeline(part).build(), decoder=decoder)


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

        # Constants would be placed on a GPU, and every picture with them.
        with tf.device("CPU:0"):
            dataset = self._checked(self._batched())
            if self._changes_batches():
                dataset = dataset.map(_plain_graph(self._transformed))
            if not self._request.skips:
                dataset = dataset.apply(tf.data.experimental.assert_cardinality(self._batches()))
            return dataset.prefetch(self._part.plan.batches_waiting).with_options(_options())

    def _batches(self) -> int:
        whole, rest = divmod(self._count, self._request.batch_size)
        return whole + (1 if rest and not self._request.drop_remainder else 0)

    def _order(self, epoch: Any, places: Any) -> Any:
        """The places of the files in this epoch; the same for the same number."""
        import tensorflow as tf

        if not self._part.shuffle:
            return places
        seed = tf.stack([tf.constant(self._part.seed, tf.int64), epoch])
        return tf.random.experimental.stateless_shuffle(places, seed)

    def _positions(self) -> Any:
        """(epoch, position, place of the file), in a new order for each iteration."""
        import tensorflow as tf

        def one_epoch(epoch: Any) -> Any:
            positions = tf.range(self._count, dtype=tf.int64)
            epochs = tf.fill([self._count], epoch)
            order = self._order(epoch, positions)
            return tf.data.Dataset.from_tensor_slices((epochs, positions, order))

        epochs = tf.data.Dataset.random(seed=self._part.seed, rerandomize_each_iteration=True)
        return epochs.take(1).flat_map(_plain_graph(one_epoch))

    def _loaded(self) -> Any:
        """(epoch, position, picture, label) of each file that gives a picture."""
        import tensorflow as tf

        paths, labels = tf.constant(self._paths, tf.string), self._labels()
        decode = self._decode()

        def one(epoch: Any, position: Any, place: Any) -> Any:
            return epoch, position, decode(tf.gather(paths, place), place), labels(place)

        loaded = self._positions().map(
            _plain_graph(one), num_parallel_calls=self._part.plan.workers, deterministic=True
        )
        return loaded.ignore_errors(log_warning=False)

    def _batched(self) -> Any:
        """The same in batches, and an end mark.

        The mark has a position without a file, at which the files missing before it are noticed,
        as often as no batch has positions; and it has no picture.
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

    def _decode(self) -> Callable[[Any, Any], Any]:
        """A function from a path and its place to the picture."""
        decode = make_decode(self._picture, self._part.plan, self._slow)
        cache = self._part.cache
        if cache is None:
            return lambda path, _: decode(path)
        shape = self._picture.shape
        return lambda path, place: kept_or_made(cache, place, lambda: decode(path), shape)

    def _labels(self) -> Callable[[Any], Any]:
        """A function from places to their labels; without labels the places, dropped at the end."""
        import tensorflow as tf

        if self._part.images.labels is None:
            return lambda places: places
        values = tf.constant(self._part.images.labels.values)
        return lambda places: tf.gather(values, places)

    def _checked(self, batches: Any) -> Any:
        """(pictures, labels) of each batch, after a check for missing positions."""
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
                return tf.ensure_shape(looked, [])  # else TensorFlow traces all of it again

            # A whole batch that goes on from the one before has every file.  The result is part of
            # the state, so that no optimizer removes the look as unused.
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

        ``before`` is the last position so far.  Gives the one after this batch.
        """
        import numpy as np

        if before == self._count:  # the end mark, after a short batch, which was the end already
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
            # If no file was read, no epoch is known, and any order will do.
            epoch = tf.constant(max(int(epoch), 0), tf.int64)
            return self._order(epoch, tf.range(self._count, dtype=tf.int64))

    def _fail(self, places: list[int]) -> None:
        """Raise an ImageError for the first of these files, or record them as skipped.

        A lack of memory always raises: tf.data reads on after an error, and then all files of the
        batch that ended with it are missing.
        """
        paths = [self._paths[place] for place in places]
        for path in filter(self._slow.out_of_memory.__contains__, paths):
            raise out_of_memory(os.fsdecode(path))
        for place, path in zip(places, paths, strict=True):
            error = examine(path, self._picture, self._part.plan.alone_bytes)
            if not self._request.skips:
                raise ImageError(error.message, hint=error.hint or SKIP_HINT, path=error.path)
            self._part.failures.note(place, os.fsdecode(path), error.reason)

    def _changes_batches(self) -> bool:
        """Whether pictures are transformed, or labels are dropped or become vectors."""
        known, mode = self._part.images.labels, self._request.label_mode
        vectors = known is None or label_vectors(mode, known.class_count) is not None
        return vectors or bool(self._part.transforms)

    def _transformed(self, images: Any, labels: Any) -> Any:
        for transform in self._part.transforms:
            images = transform(images)
        known = self._part.images.labels
        if known is None:
            return images
        vectors = label_vectors(self._request.label_mode, known.class_count)
        return images, labels if vectors is None else vectors(labels)


def _plain_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep AutoGraph from rewriting Python that is meant to run while tracing."""
    import tensorflow as tf

    made: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return made


def _options() -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = True
    # There is nothing left to tune: workers and buffers are the plan's.  Tuning costs a thread.
    options.autotune.enabled = False
    # Nor is there anything to rewrite, and looking for it takes a third of an epoch's start.
    options.experimental_optimization.apply_default_optimizations = False
    # One thread for each picture: splitting its work costs more than it gains.
    options.threading.max_intra_op_parallelism = 1
    return options


def _tensorflow() -> Any:
    try:
        import tensorflow
    except ImportError:
        raise MissingDependencyError(
            "stream() needs TensorFlow, which is not installed",
            hint="pip install 'gpuconf[tensorflow]', or gpuconf.images.sequence for other backends",
        ) from None
    return tensorflow
