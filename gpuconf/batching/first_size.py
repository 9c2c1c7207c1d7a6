"""Where the search for a batch size starts: the whole batch, or a small size."""

from __future__ import annotations

import sys
from typing import Any

from gpuconf.basics.units import MIB
from gpuconf.batching.card import current_card, room_to_double
from gpuconf.batching.size import CardBatch, key_for, known_size
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_on_any_backend

MOST_SAMPLES = 1024  # enough to keep a GPU busy; more only costs memory
CAREFUL = 32  # Keras's default
_MOST_BYTES = 256 * MIB  # of one batch in host memory


def host_batch(sample_bytes: int) -> int:
    """The default number of samples passed at once: at most 256 MiB of data."""
    return max(1, min(MOST_SAMPLES, _MOST_BYTES // max(1, sample_bytes)))


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


def size_for(what: str, model: Any, data: Any, *, is_auto: bool, max_retries: int) -> CardBatch:
    """Return the whole batch, a size known for this model and GPU, or (``is_auto``) a small one.

    ``data`` is the first batch.  An automatic size starts small and doubles as long as batches fit.
    """
    card = current_card(family_on_any_backend(model).backend)
    key = key_for(what, model_signature(model, data), card)
    starts_small = (
        is_auto
        and known_size(key) is None
        and nests.count(data) > CAREFUL
        and card.free_bytes is not None
    )
    return CardBatch(
        key,
        what=what,
        most=sys.maxsize,
        start=CAREFUL if starts_small else None,
        room_to_double=room_to_double(card) if starts_small else None,
        max_retries=max_retries,
    )
