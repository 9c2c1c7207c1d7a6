"""The largest batch that fits, of tracers made by hand: against trying every batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.largest_batch import Limit, largest_batch
from gpuconf.commands.estimate.runner.runner import KernelAbortedError, TooLargeError
from gpuconf.commands.estimate.step import Step
from gpuconf.errors import BackendError
from gpuconf.support.batch_search import MOST_BATCH
from tests.commands.estimate.hand_made_steps import piece, ran, step

Peak = Callable[[int], float]


class Tracer:
    """A tracer of steps of ``peak(batch)`` MiB that notes the batches it is requested.

    None runs on a GPU of ``card_mib``, nor under the limit if it has more than ``most_in_limit``.
    """

    def __init__(
        self, peak: Peak, card_mib: float = float("inf"), most_in_limit: int = MOST_BATCH
    ) -> None:
        self._peak = peak
        self._card_mib = card_mib
        self._most_in_limit = most_in_limit
        self.asked: list[int] = []
        self.error: type[BackendError] = TooLargeError
        self.notes: tuple[str, ...] = ()

    def step(self, batch_size: int) -> Step:
        """The step, as it ran."""
        pieces = [piece(round(self._peak(batch_size) * MIB), 0, 0)]
        made = ran(step(pieces, batch_size=batch_size))
        runs = batch_size <= self._most_in_limit
        return made._replace(memory=made.memory._replace(runs_in_limit=runs))

    def __call__(self, batch_size: int) -> Step:
        self.asked.append(batch_size)
        if self._peak(batch_size) > self._card_mib:
            raise self.error("more than the GPU")
        return self.step(batch_size)

    def largest(self, limit_mib: float, *, first: int = 8) -> int:
        """The largest batch, from steps at ``first`` and twice that."""
        limit = Limit(round(limit_mib * MIB))
        found, self.notes = largest_batch(self, self.step(first), self.step(first * 2), limit)
        assert found in (0, first, 2 * first, *self.asked), "it ran"
        assert found == 0 or limit.fits(self.step(found))
        return found


@given(st.floats(0, 500), st.floats(0.01, 50), st.floats(1, 10_000), st.integers(1, 128))
def test_a_line(base: float, per_sample: float, limit_mib: float, first: int) -> None:
    """Where the peak grows in proportion, a few runs find it to within 1 %, or one sample."""
    trace = Tracer(lambda batch: base + per_sample * batch)
    found = trace.largest(limit_mib, first=first)
    best = min(MOST_BATCH, max(0, int((limit_mib - base) / per_sample)))
    assert best - max(1, best // 100) <= found <= best + 1
    assert len(trace.asked) <= 6


@pytest.mark.parametrize(
    ("peak", "limit_mib", "first", "best"),
    [
        # Building or the update decides at small batches, activations beyond.
        (lambda batch: max(300, 100 + 10 * batch), 1000, 4, 90),
        (lambda batch: max(300, 100 + batch / 10), 1000, 4, 9000),
        # Another kernel takes 10 % more, or a sample a fifth, than two small steps foretell.
        (lambda batch: batch * (100 if batch < 40 else 110), 5000, 8, 45),
        (lambda batch: 10 * batch if batch <= 20 else 160 + 2 * batch, 1000, 8, 420),
        # All pairs of samples.
        (lambda batch: batch * batch, 10_000, 8, 100),
        (lambda batch: 1 if batch == 1 else 100 + batch, 50, 8, 1),
    ],
)
def test_the_runs_decide(peak: Peak, limit_mib: float, first: int, best: int) -> None:
    """Where two steps foretell too much or too little, it goes on from what has run."""
    trace = Tracer(peak)
    assert best - max(1, best // 25) <= trace.largest(limit_mib, first=first) <= best
    assert len(trace.asked) <= 10, "each is a run of seconds"


@pytest.mark.parametrize("error", [TooLargeError, KernelAbortedError])
def test_a_step_that_does_not_run_is_too_large(error: type[BackendError]) -> None:
    """The GPU is full before the limit, or a kernel cannot count as far: smaller ones are run."""
    trace = Tracer(lambda batch: 10 * batch if batch < 50 else 20 * batch, card_mib=900)
    trace.error = error
    found = trace.largest(890, first=8)
    assert found >= 44
    assert bool(trace.notes) == (error is KernelAbortedError)
    for note in trace.notes:
        first = int(note.removeprefix("a kernel aborts at batch ").split(",")[0])
        assert 50 <= first <= found * 1.05 + 1, "the smallest batch at which it aborted"


def test_an_abort_is_noted_only_if_it_decides() -> None:
    """Otherwise a smaller batch decides, which runs but does not fit."""
    trace = Tracer(lambda batch: 3 * batch if batch < 60 else 100 * batch, card_mib=9000)
    trace.error = KernelAbortedError
    assert 56 <= trace.largest(1000) <= 59
    assert trace.asked[0] > 90, "aborted"
    assert trace.notes == ()


def test_a_step_that_fails_otherwise_is_an_error() -> None:
    """Only a lack of memory and an aborting kernel may depend on the batch."""
    trace = Tracer(lambda batch: 10 * batch, card_mib=900)
    trace.error = BackendError
    with pytest.raises(BackendError, match=r"^at batch 100, more than the GPU"):
        trace.largest(1000)


def test_an_abort_at_the_smallest_batch_is_an_error() -> None:
    """Nothing smaller has run, so the batch is not the reason."""
    trace = Tracer(lambda batch: 100 * batch)
    known = trace.step(8), trace.step(16)
    trace = Tracer(lambda batch: 100 * batch, card_mib=0)
    trace.error = KernelAbortedError
    with pytest.raises(KernelAbortedError):
        largest_batch(trace, *known, Limit(100 * MIB))


@pytest.mark.parametrize(
    ("rise_mib", "is_bounded"), [(0, True), (0.01, True), (1, True), (50, True), (60, False)]
)
def test_two_nearly_equal_peaks_do_not_foretell(rise_mib: float, is_bounded: bool) -> None:
    """The next batch is at most 16 times as large, unless the peak rises by a tenth."""
    trace = Tracer(lambda batch: 500 + max(0, batch - 8) / 8 * rise_mib)
    trace.largest(30_000)
    assert (trace.asked[0] <= 16 * 16) == is_bounded


@pytest.mark.parametrize(
    ("most", "first", "limit_mib"),
    [(90, 1, 1000), (70, 1, 1000), (3, 1, 1000), (45, 8, 800), (30, 64, 800), (390, 8, 10_000)],
)
def test_a_step_that_fails_below_the_limit(most: int, first: int, limit_mib: int) -> None:
    """Its memory is too fragmented: a slightly smaller batch is run, and then one between."""
    trace = Tracer(lambda batch: 100 + 10 * batch, most_in_limit=most)
    found = trace.largest(limit_mib, first=first)
    best = min(most, (limit_mib - 100) // 10)
    assert best * 0.95 - 1 <= found <= best
    assert len(trace.asked) <= 10


def test_a_model_of_one_batch_size() -> None:
    """There is no other step: it is that batch, or none."""
    trace = Tracer(lambda batch: 10 * batch)
    assert largest_batch(trace, trace.step(4), None, Limit(40 * MIB)).size == 4
    assert largest_batch(trace, trace.step(4), None, Limit(39 * MIB)).size == 0
    assert trace.asked == []


def test_what_does_not_grow_fits_at_any_batch() -> None:
    """The search ends at a batch that nobody uses."""
    trace = Tracer(lambda _batch: 10)
    assert trace.largest(10) >= MOST_BATCH // 25 * 24
    assert trace.largest(9.9) == 0
