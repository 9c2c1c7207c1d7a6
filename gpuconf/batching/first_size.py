"""Where the search for a batch size begins: what a model's estimate says, or a careful start."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from gpuconf.batching.card import ComputeDevice, current_card, room_to_double
from gpuconf.batching.size import CardBatch, Guess, key_for, known_size
from gpuconf.footprint import estimate
from gpuconf.keras_api import nests
from gpuconf.keras_api.families import family_on_any_backend
from gpuconf.keras_api.variables import optimizer_variables, size_bytes
from gpuconf.terminal import debug
from gpuconf.units import MIB

MOST_SAMPLES = 1024  # a card is busy with far fewer, and more cost memory alone
CAREFUL = 32  # Keras's own default
_MOST_BYTES = 256 * MIB  # of one batch in the host's memory
_BATCHES_AHEAD = 4  # that tf.data holds: read, made ready, in use
_ESTIMATE_SHARE = 0.85  # its error, and what ran before on the card


def host_batch(sample_bytes: int) -> int:
    """The default number of samples passed at once: at most 256 MiB of them."""
    return max(1, min(MOST_SAMPLES, _MOST_BYTES // max(1, sample_bytes)))


def estimated(model: Any, data: Any, *, training: bool) -> Callable[[], int | None]:
    """Asked, it says how many samples should fit now; None where that is unknown.

    ``data`` is a batch as ``fit`` gets it; of it only shapes and types are kept.
    """
    specs = nests.mapped(_spec, data)
    data_bytes = sum(map(_bytes_of, nests.leaves(data)))

    def guess() -> int | None:
        card = current_card()
        free = card.free_bytes
        if free is not None and card.name.startswith("CPU"):
            free -= _BATCHES_AHEAD * data_bytes  # there the host's batches are in the same memory
        if free is None or free <= 0:
            return None
        try:
            found = estimate(
                model,
                CAREFUL,
                training=training,
                data=specs,
                jit=False,  # its steps run op by op
                limit=free + _counted_again(card, model, training=training),
            )
        except Exception as error:  # a model that cannot be traced alone runs all the same
            debug(f"no estimate of the batch that fits: {error}")
            return None
        largest = found.largest_batch
        return None if largest is None else max(1, int(largest * _ESTIMATE_SHARE))

    return guess


def _counted_again(card: ComputeDevice, model: Any, *, training: bool) -> int:
    """Bytes in use that an estimate has in it: the model's weights, and the optimizer's state."""
    mine = list(model.variables)
    if training and model.optimizer is not None:
        mine += optimizer_variables(model.optimizer)
    return size_bytes(mine) if card.in_use_bytes else 0


def _bytes_of(leaf: Any) -> int:
    """Of an array or tensor; 0 where the size is not the shape's, as of ragged ones."""
    import tensorflow as tf

    shape = tuple(leaf.shape)
    return 0 if None in shape else math.prod(shape) * int(tf.as_dtype(leaf.dtype).size)


def _spec(leaf: Any) -> Any:
    import tensorflow as tf

    return tf.TensorSpec((None, *leaf.shape[1:]), tf.as_dtype(leaf.dtype))


def model_signature(model: Any, data: Any) -> tuple[Any, ...]:
    """Hashable: the model's kind, its weights, the precision, and one sample's shapes and types."""
    weights = tuple((tuple(each.shape), str(each.dtype)) for each in model.weights)
    trainable = tuple(bool(each.trainable) for each in model.weights)
    return (
        type(model).__qualname__,
        hash((weights, trainable)),
        str(getattr(model.dtype_policy, "name", model.dtype_policy)),
        type(getattr(model, "optimizer", None)).__name__,
        sample_signature(data),
    )


def sample_signature(data: Any) -> tuple[Any, ...]:
    """Shapes and types of one sample."""
    return tuple(
        (tuple(leaf.shape[1:]), str(getattr(leaf, "dtype", type(leaf))))
        for leaf in nests.leaves(data)
    )


def size_for(
    what: str, model: Any, data: Any, *, is_auto: bool, max_retries: int, training: bool = False
) -> CardBatch:
    """The whole batch, what is known of this model and card, or (``is_auto``) an estimate.

    ``data`` is the first batch.  Where an automatic size can have no estimate, as on JAX and
    PyTorch, it begins small and doubles as long as that runs.
    """
    backend = family_on_any_backend(model).backend
    card = current_card(backend)
    key = key_for(what, model_signature(model, data), card)
    guess: Guess = lambda: None  # noqa: E731
    if backend == "tensorflow":
        guess = estimated(model, data, training=training)
    start, room = None, None
    if is_auto and known_size(key) is None and nests.count(data) > CAREFUL:
        start = guess()
        if start is None and card.free_bytes is not None:
            start, room = CAREFUL, room_to_double(card)
    return CardBatch(
        key,
        what=what,
        most=sys.maxsize,
        start=start,
        room_to_double=room,
        guess=None if start else guess,
        max_retries=max_retries,
    )
