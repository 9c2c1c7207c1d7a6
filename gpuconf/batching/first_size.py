"""Where the search for a batch size starts: the model's estimate, or a small size."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from gpuconf.basics.terminal import debug
from gpuconf.basics.units import MIB
from gpuconf.batching.card import ComputeDevice, current_card, room_to_double
from gpuconf.batching.size import CardBatch, Guess, key_for, known_size
from gpuconf.commands.estimate import estimate
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_on_any_backend
from gpuconf.support.keras_api.variables import optimizer_variables, size_bytes

MOST_SAMPLES = 1024  # enough to keep a GPU busy; more only costs memory
CAREFUL = 32  # Keras's default
_MOST_BYTES = 256 * MIB  # of one batch in host memory
_BATCHES_AHEAD = 4  # held by tf.data: being read, ready, in use
_ESTIMATE_SHARE = 0.85  # allows for its error, and for what already ran on the GPU


def host_batch(sample_bytes: int) -> int:
    """The default number of samples passed at once: at most 256 MiB of them."""
    return max(1, min(MOST_SAMPLES, _MOST_BYTES // max(1, sample_bytes)))


def estimated(model: Any, data: Any, *, training: bool) -> Callable[[], int | None]:
    """Return a function that estimates how many samples fit now, or None if unknown.

    ``data`` is a batch as ``fit`` receives it; only its shapes and types are kept.
    """
    specs = nests.mapped(_spec, data)
    data_bytes = sum(map(_bytes_of, nests.leaves(data)))

    def guess() -> int | None:
        card = current_card()
        free = card.free_bytes
        if free is not None and card.name.startswith("CPU"):
            free -= _BATCHES_AHEAD * data_bytes  # on the CPU, the host's batches share this memory
        if free is None or free <= 0:
            return None
        try:
            found = estimate(
                model,
                CAREFUL,
                training=training,
                data=specs,
                jit=False,  # the steps run op by op
                limit=free + _counted_again(card, model, training=training),
            )
        except Exception as error:  # a model that cannot be traced alone can still run
            debug(f"no estimate of the batch that fits: {error}")
            return None
        largest = found.largest_batch
        return None if largest is None else max(1, int(largest * _ESTIMATE_SHARE))

    return guess


def _counted_again(card: ComputeDevice, model: Any, *, training: bool) -> int:
    """Bytes in use that the estimate includes too: the weights and the optimizer's state."""
    mine = list(model.variables)
    if training and model.optimizer is not None:
        mine += optimizer_variables(model.optimizer)
    return size_bytes(mine) if card.in_use_bytes else 0


def _bytes_of(leaf: Any) -> int:
    """Bytes of an array or tensor; 0 if the shape does not give the size, as for ragged tensors."""
    import tensorflow as tf

    shape = tuple(leaf.shape)
    return 0 if None in shape else math.prod(shape) * int(tf.as_dtype(leaf.dtype).size)


def _spec(leaf: Any) -> Any:
    import tensorflow as tf

    return tf.TensorSpec((None, *leaf.shape[1:]), tf.as_dtype(leaf.dtype))


def model_signature(model: Any, data: Any) -> tuple[Any, ...]:
    """A hashable key: the model's class, weights and precision; one sample's shapes and types."""
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
    """Return the whole batch, a size known for this model and GPU, or (``is_auto``) an estimate.

    ``data`` is the first batch.  If there is no estimate for an automatic size, as on JAX and
    PyTorch, the size starts small and doubles as long as batches fit.
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
