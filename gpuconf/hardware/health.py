"""What NVML tells of a card's troubles: plain values, every one of which may be unknown."""

from __future__ import annotations

from typing import NamedTuple


class CardHealth(NamedTuple):
    """Signs of failing memory, and what keeps programs off a card.  Unknown is None.

    ``problem`` is lost or forbidden where the card cannot be asked at all.
    ``uncorrected_errors`` counts since the driver was loaded.  ``retirement_pending`` (cards
    before Ampere) and ``remap_pending`` (Ampere and later) say that a reset is due,
    ``remap_failed`` that the card's spare rows are used up.  ``compute_mode`` is default,
    exclusive or prohibited.  ``recovery`` is what the driver itself wants done: reset, reboot,
    drain.  ``ecc_enabled`` is None for cards that have no ECC.
    """

    problem: str | None = None
    ecc_enabled: bool | None = None
    uncorrected_errors: int | None = None
    retirement_pending: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    compute_mode: str | None = None
    recovery: str | None = None
