"""Runs with other batches to suggest one: the largest that stays below the limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gpuconf.commands.rehearse.breakdown import SLOTS, WEIGHTS, devices_of, tightest, total_bytes
from gpuconf.commands.rehearse.phases import BUILD, TRAIN, VALIDATE, phases_of
from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.commands.rehearse.suggestion import MARGIN, Measurement, Suggestion
from gpuconf.commands.rehearse.verdict import Verdict, verdict_of
from gpuconf.support.batch_search import MOST_BATCH, BatchSearch

_MOST_FURTHER_RUNS = 6
_CLOSE = 8  # the suggestion may be too small by this part of it, before it is rounded
NOT_EVEN_ONE = "not even one example per step fits"
_CHANGEABLE = ("arrays", "tf.data", "generator", "sequence", "train_on_batch")

Again = Callable[[int], RunResult]


class _Measured:
    """The batches that ran, with their peaks, and the smallest that ran out of memory, if any."""

    def __init__(self, limit_bytes: int, examples: int | None) -> None:
        self._usable_bytes = int(limit_bytes * (1 - MARGIN))
        self._examples = examples
        most = min(examples or MOST_BATCH, MOST_BATCH)
        self.search = BatchSearch(self._usable_bytes, close=_CLOSE, most=most)
        self._peaks: dict[int, int] = {}
        self._failed: int | None = None

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Those that ran, by batch."""
        return tuple(Measurement(*each) for each in sorted(self._peaks.items()))

    def add(self, run: RunResult, batch: int) -> None:
        """Add a run that fit; its weights and optimizer state do not depend on the batch."""
        device = tightest(devices_of(run))
        rows = device.rows if device is not None else ()
        peak = _training_peak(run) or (device.peak_bytes if device is not None else 0)
        used = (run.trainer.get("batch") or {}).get("used") or batch
        self._peaks[used] = peak
        kept = total_bytes(rows, WEIGHTS) + total_bytes(rows, SLOTS)
        self.search.add(0, kept, fits=True)
        self.search.add(used, peak, fits=peak <= self._usable_bytes)

    def refuse(self, batch: int) -> None:
        """Add a run that did not fit."""
        self._failed = min(batch, self._failed or batch)
        self.search.refuse(batch)

    def next_batch(self) -> int | None:
        """The next batch to run, rounded down to a usual size; None if none would matter."""
        batch = self.search.next_batch()
        if batch is None or batch == self._examples:
            return batch
        return max(self.search.good + 1, sensible(batch))

    def suggestion(self) -> Suggestion:
        """The largest batch that ran below the limit less the margin."""
        batch = self.search.good
        if batch == 0:
            why_not = f"{self.search.bad} examples per step do not fit, and fewer were not tried"
            return Suggestion(None, NOT_EVEN_ONE if self.search.bad == 1 else why_not)
        is_all_data = batch == self._examples
        return Suggestion(batch, None, self._peaks[batch], is_all_data, self._failed)


def _training_peak(run: RunResult) -> int:
    """The most memory in use during training; a later prediction has a different batch size."""
    of_training = (BUILD, TRAIN, VALIDATE)
    return max(
        (each.peak_bytes or 0 for each in phases_of(run) if each.kind in of_training), default=0
    )


def find_batch(
    first: RunResult, verdict: Verdict, again: Again | None
) -> tuple[tuple[Measurement, ...], Suggestion | None]:
    """Measure other batch sizes with ``again(batch)``; return those that fit, and the suggestion.

    Without ``again``, only the first run is evaluated, and there is no suggestion.
    """
    batch = first.trainer.get("batch") or {}
    used, device = batch.get("used"), tightest(devices_of(first))
    if used is None or device is None or batch.get("kind") not in _CHANGEABLE:
        return (), Suggestion(None, _why_unchangeable(batch, first.trainer.get("steps", 0)))
    if verdict.phase is not None and verdict.phase.kind not in (BUILD, TRAIN, VALIDATE):
        return (), Suggestion(None, f"it failed in {verdict.phase.place}, not in a training run")
    # fit() put whole arrays on the GPU, which no batch size can change.
    if verdict.failure is not None and verdict.failure.node == "_EagerConst":
        return (), Suggestion(None, "it failed on the data as a whole, not on a batch")
    measured = _Measured(device.limit_bytes, batch.get("examples"))
    if verdict.answer == "fits":
        measured.add(first, used)
    else:
        measured.refuse(used)
    suggestion = None if again is None else _suggestion(measured, again)
    return measured.measurements, suggestion


def _suggestion(measured: _Measured, again: Again) -> Suggestion:
    """Run other batches, and return the largest that stayed below the limit."""
    for _ in range(_MOST_FURTHER_RUNS):
        batch = measured.next_batch()
        if batch is None:
            break
        result = again(batch)
        outcome = verdict_of(result)
        if outcome.answer == "fits":
            measured.add(result, batch)
        elif outcome.answer == "does not fit":
            measured.refuse(batch)
        elif measured.search.good == 0:
            why_not = f"with a batch of {batch} there is no verdict: {outcome.because}"
            return Suggestion(None, why_not)
        else:
            break
    return measured.suggestion()


def sensible(most: int) -> int:
    """The largest round batch size up to ``most``.

    A multiple of the power of two that is at most a quarter of it, and at most 32: 7 -> 7, 13 ->
    12, 29 -> 28, 100 -> 96, 1000 -> 992.
    """
    if most < 8:
        return most
    step = min(32, 2 ** (int(math.log2(most)) - 2))
    return int(most // step * step)


def _why_unchangeable(batch: Mapping[str, object], steps: int) -> str:
    if not batch and not steps:
        return (
            "it failed before fit() or train_on_batch() ran, and the batch of the "
            "script's own loop cannot be changed from outside"
        )
    if batch.get("why_not"):
        return f"the batch cannot be changed from outside: {batch['why_not']}"
    if batch:
        return "the number of examples in a step could not be determined"
    return "the program trains in its own loop, whose batch cannot be changed from outside"
