"""Where the search for a batch size begins: what a model's estimate says, or a careful start."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gpuconf.batching.card import Card, current_card
from gpuconf.footprint import estimate
from gpuconf.keras_api import nests
from gpuconf.keras_api.variables import optimizer_variables, size_bytes
from gpuconf.terminal import debug

MOST_SAMPLES = 1024  # a card is busy with far fewer, and more cost memory alone
CAREFUL = 32  # Keras's own default
_MOST_BYTES = 256 << 20  # of one batch in the computer's memory
_BATCHES_AHEAD = 4  # that tf.data holds: read, made ready, in use
_SHARE = 0.85  # of an estimate: its error, and what ran before on the card


def host_batch(sample_bytes: int) -> int:
    """How many samples are handed over at once where nobody says: at most 256 MiB of them."""
    return max(1, min(MOST_SAMPLES, _MOST_BYTES // max(1, sample_bytes)))


def estimated(model: Any, data: Any, *, training: bool) -> Callable[[], int | None]:
    """Asked, it says how many samples should fit now; None where nothing can tell.

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
            told = estimate(
                model,
                CAREFUL,
                training=training,
                data=specs,
                jit=bool(getattr(model, "jit_compile", False)),
                limit=free + _counted_again(card, model, training=training),
            )
        except Exception as error:  # a model that cannot be traced alone runs all the same
            debug(f"no estimate of the batch that fits: {error}")
            return None
        return None if told.largest_batch is None else max(1, int(told.largest_batch * _SHARE))

    return guess


def _counted_again(card: Card, model: Any, *, training: bool) -> int:
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
