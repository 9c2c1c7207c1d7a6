"""Finds the largest batch that fits: each candidate is confirmed by its own step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuconf.commands.estimate.runner.runner import KernelAbortedError, TooLargeError
from gpuconf.commands.estimate.step import Step
from gpuconf.errors import BackendError
from gpuconf.support.batch_search import BatchSearch

_TRIES = 10
_CLOSE = 100  # the result may be too small by this part of it


class Limit(NamedTuple):
    """How much the allocator may use; a step fits if it leaves ``margin_bytes`` unused."""

    size_bytes: int
    margin_bytes: int = 0

    @property
    def usable_bytes(self) -> int:
        """The limit without the margin."""
        return self.size_bytes - self.margin_bytes

    def fits(self, step: Step) -> bool:
        """Whether the step stays within the limit, and also ran under it if that was tried."""
        return step.memory.runs_in_limit and step.memory.peak_bytes <= self.usable_bytes


Tracer = Callable[[int], Step]


class LargestBatch(NamedTuple):
    """The largest batch that fits, 0 if none does, and a note about what decided it."""

    size: int
    notes: tuple[str, ...] = ()


def largest_batch(trace: Tracer, one: Step, other: Step | None, limit: Limit) -> LargestBatch:
    """Return the largest batch found whose own step fits within the limit; 0 if none does.

    ``one`` and ``other`` are steps at two batch sizes, from which the search starts. Without an
    ``other`` step, the result is the batch size of ``one``, or 0. A batch is confirmed by its step,
    and the result is up to 1 % below the largest, or more if ten tries do not get as close.

    A batch does not fit either if a kernel aborts there, but not at a smaller batch.  Raises
    BackendError if a step fails for any other reason.
    """
    if other is None:
        return LargestBatch(one.batch_size if limit.fits(one) else 0)
    aborted = None
    search = BatchSearch(limit.usable_bytes, close=_CLOSE)

    def add(step: Step) -> None:
        search.add(step.batch_size, step.memory.peak_bytes, fits=limit.fits(step))

    add(one)
    add(other)
    for _ in range(_TRIES):
        batch = search.next_batch()
        if batch is None:
            break
        try:
            add(trace(batch))
        except TooLargeError:
            search.refuse(batch)
        except KernelAbortedError:
            if not search.has_run_below(batch):
                raise
            search.refuse(batch)
            aborted = batch
        except BackendError as error:
            raise BackendError(f"at batch {batch}, {error.message}", hint=error.hint) from error
    if search.bad == aborted:
        note = f"a kernel aborts at batch {aborted}, which therefore does not fit under any limit"
        return LargestBatch(search.good, (note,))
    return LargestBatch(search.good)
