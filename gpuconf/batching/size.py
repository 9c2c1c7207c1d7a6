"""How many samples the GPU receives at once: found, halved after OOM errors, remembered.

Sizes are kept per computation and GPU until the process ends.  The GPU's limit is part of the
key, so a larger batch is tried if other programs have left more memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuconf.basics.arguments import whole_number
from gpuconf.basics.terminal import say
from gpuconf.basics.units import MIB
from gpuconf.batching.card import ComputeDevice, free_cached
from gpuconf.batching.failures import OutOfMemory, clear_traceback, explain_on_stderr

MOST_RETRIES = 10


class SizeKey(NamedTuple):
    """The key of a batch size: the kind of step, the model's or function's signature, the GPU."""

    kind: str
    signature: Any
    card: str
    limit_mib: int | None


class KnownSize(NamedTuple):
    """The largest size that fit, and the smallest that did not."""

    good: int
    bad: int | None = None


_KNOWN: dict[SizeKey, KnownSize] = {}


def key_for(kind: str, signature: Any, card: ComputeDevice) -> SizeKey:
    """Return the key for a step on a GPU; the signature must be hashable."""
    limit = None if card.limit_bytes is None else card.limit_bytes // MIB
    return SizeKey(kind, signature, card.name, limit)


def known_size(key: SizeKey) -> KnownSize | None:
    """Return the size that earlier calls found."""
    return _KNOWN.get(key)


def remember(key: SizeKey, known: KnownSize) -> None:
    """Store the size for later calls."""
    _KNOWN[key] = known


def forget() -> None:
    """Forget all sizes, for example after other programs have released memory."""
    _KNOWN.clear()


class CardBatch:
    """The size of the batches that the GPU receives during one call.

    ``most`` is the maximum.  ``start`` is the first size if none is known; it doubles as long as
    ``room_to_double`` returns True and nothing fails.  A size that fails is halved.
    """

    def __init__(
        self,
        key: SizeKey,
        *,
        what: str,
        most: int,
        start: int | None = None,
        room_to_double: Callable[[], bool] | None = None,
        max_retries: int = MOST_RETRIES,
    ) -> None:
        self._key = key
        self.what = what
        self._most = most
        self._room_to_double = room_to_double
        self._retries_left = max_retries
        self._bad: int | None = None
        self.size = self._first(start)
        self.refusals = 0

    def _first(self, start: int | None) -> int:
        known = known_size(self._key)
        if known is None:
            return max(1, min(self._most, start or self._most))
        self._bad = known.bad
        if known.bad is None and start is None:
            return self._most  # larger than any before, but it may fit
        return min(self._most, known.good)

    def succeeded(self, size: int) -> None:
        """Record that a batch of this size fit."""
        known = known_size(self._key)
        if known is None or size > known.good or known.bad != self._bad:
            if known is not None and self._bad is None:
                size = max(size, known.good)
            remember(self._key, KnownSize(size, self._bad))
        if self._room_to_double is not None and size >= self.size:
            self._double(self._room_to_double)

    def _double(self, has_room: Callable[[], bool]) -> None:
        doubled = min(self._most, self.size * 2)
        if (self._bad is not None and doubled >= self._bad) or not has_room():
            self._room_to_double = None
        else:
            self.size = doubled

    def failed(self, failure: OutOfMemory, size: int) -> None:
        """Reduce the size after a batch of this size did not fit, or raise the original error.

        The error is raised, with a diagnosis on stderr, if no smaller batch can help.
        """
        if not failure.is_of_the_card:
            self._give_up(
                failure, "the host ran out of RAM, and a smaller batch does not help there"
            )
        self.refusals += 1
        self._room_to_double = None
        if size <= 1:
            self._give_up(failure, "not even one sample fits")
        if self._retries_left <= 0:
            tries = "1 try" if self.refusals == 1 else f"{self.refusals} tries"
            advice = "use a smaller batch_size, or a larger max_retries"
            self._give_up(failure, f"still out of memory after {tries}; {advice}")
        self._retries_left -= 1
        self._bad = size if self._bad is None else min(self._bad, size)
        self.size = (size + 1) // 2 if size > 2 else 1
        say(
            f"{self.what}: {failure.summary}; {size} samples do not fit; "
            f"continuing with {self.size}"
        )
        clear_traceback(failure.error)
        free_cached()

    def _give_up(self, failure: OutOfMemory, why: str) -> None:
        explain_on_stderr(failure.error, f"{self.what}: {why}")
        raise failure.error


def checked_retries(max_retries: Any) -> int:
    """How many more times a call may run out of memory after the first; raises UsageError."""
    return whole_number("max_retries", max_retries, least=0, hint=f"max_retries={MOST_RETRIES}")
