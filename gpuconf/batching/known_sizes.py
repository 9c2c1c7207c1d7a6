"""Batch sizes that have been found out, by what is computed and on which card.

They live as long as the process.  The limit is part of the key: on a card that others have left
more of, a larger batch is looked for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.batching.card import Card
from gpuconf.units import MIB


class Key(NamedTuple):
    """What a batch size is known for: a kind of step, a model's or function's signature, a card."""

    kind: str
    signature: Any
    card: str
    limit_mib: int | None


class Known(NamedTuple):
    """The largest size that ran, and the smallest that did not."""

    good: int
    bad: int | None = None


_KNOWN: dict[Key, Known] = {}


def key_for(kind: str, signature: Any, card: Card) -> Key:
    """The key of a step on a card; the signature must be hashable."""
    limit = None if card.limit_bytes is None else card.limit_bytes // MIB
    return Key(kind, signature, card.name, limit)


def known_size(key: Key) -> Known | None:
    """What earlier calls found out."""
    return _KNOWN.get(key)


def remember(key: Key, known: Known) -> None:
    """Keep it for later calls."""
    _KNOWN[key] = known


def forget() -> None:
    """Forget all sizes, as after other programs have left the card."""
    _KNOWN.clear()
