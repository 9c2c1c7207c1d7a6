"""The size that a model's batches have on the card, to begin with."""

from __future__ import annotations

import sys
from typing import Any

from gpuconf.batching.card import current_card, room_to_double
from gpuconf.batching.card_batch import CardBatch
from gpuconf.batching.first_size import CAREFUL, estimated
from gpuconf.batching.known_sizes import key_for, known_size
from gpuconf.batching.signature import model_signature
from gpuconf.keras_api import nests


def size_for(
    what: str, model: Any, data: Any, *, is_auto: bool, max_retries: int, training: bool = False
) -> CardBatch:
    """The whole batch, what is known of this model and card, or (``is_auto``) an estimate.

    ``data`` is the first batch.  Where an automatic size can have no estimate, it begins small and
    doubles as long as that runs.
    """
    card = current_card()
    key = key_for(what, model_signature(model, data), card)
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
