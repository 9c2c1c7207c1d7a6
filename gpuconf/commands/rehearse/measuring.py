"""Runs with other batch sizes to suggest one: two that fit, and one that confirms the line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from gpuconf.commands.rehearse.breakdown import SLOTS, WEIGHTS, devices_of, tightest, total_bytes
from gpuconf.commands.rehearse.phases import BUILD, TRAIN, VALIDATE, phases_of
from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.commands.rehearse.suggestion import (
    NEARLY_FULL,
    Measurement,
    Suggestion,
    between,
    suggest,
)
from gpuconf.commands.rehearse.verdict import Verdict, verdict_of

_MOST_FURTHER_RUNS = 4
_MOST_CONFIRMING_RUNS = 3
NOT_EVEN_ONE = "not even one example per step fits"
_CHANGEABLE = ("arrays", "tf.data", "generator", "sequence", "train_on_batch")

Again = Callable[[int], RunResult]


class MeasuredBatches(NamedTuple):
    """The batches that fit, with their peaks, and the smallest that failed, if any."""

    fitting: tuple[Measurement, ...] = ()
    failed: int | None = None
    kept_bytes: int | None = None  # weights and optimizer state of the last run that fit

    def with_run(self, run: RunResult, batch: int) -> MeasuredBatches:
        """Add a run that fit."""
        device = tightest(devices_of(run))
        used = (run.trainer.get("batch") or {}).get("used") or batch
        if device is None:
            return self._replace(fitting=(*self.fitting, Measurement(used, 0)))
        kept = total_bytes(device.rows, WEIGHTS) + total_bytes(device.rows, SLOTS)
        point = Measurement(used, _training_peak(run) or device.peak_bytes)
        return self._replace(fitting=tuple(sorted({*self.fitting, point})), kept_bytes=kept)

    def without(self, batch: int) -> MeasuredBatches:
        """Add a run that did not fit."""
        return self._replace(failed=min(batch, self.failed or batch))


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
    fits = verdict.answer == "fits"
    measured = MeasuredBatches().with_run(first, used) if fits else MeasuredBatches(failed=used)
    if again is None:
        return measured.fitting, None
    measured, why_not = _two_that_fit(measured, used, again)
    if why_not is not None:
        return measured.fitting, Suggestion(None, why_not)
    line = partial(suggest, limit_bytes=device.limit_bytes, examples=batch.get("examples"))
    found = line(measured.fitting, failed=measured.failed, kept_bytes=measured.kept_bytes)
    return _confirmed(found, measured, again, line)


def _two_that_fit(
    measured: MeasuredBatches, used: int, again: Again
) -> tuple[MeasuredBatches, str | None]:
    """Reduce the batch until two sizes fit; also return why no suggestion is possible, if so."""
    for size in _further_batches(used, is_fitting=bool(measured.fitting)):
        result = again(size)
        outcome = verdict_of(result)
        if outcome.answer == "fits":
            measured = measured.with_run(result, size)
        elif outcome.answer == "does not fit":
            measured = measured.without(size)
        else:
            return measured, f"with a batch of {size} there is no verdict: {outcome.because}"
        if len(measured.fitting) == 2:
            break
    return measured, NOT_EVEN_ONE if measured.failed == 1 else None


def _confirmed(
    found: Suggestion, measured: MeasuredBatches, again: Again, line: Callable[..., Suggestion]
) -> tuple[tuple[Measurement, ...], Suggestion]:
    """Run the suggested batch, and correct the suggestion.

    If it does not fit, try one closer to the sizes that fit. If it leaves a lot of room, use the
    new suggestion that ``line`` derives from the two largest.
    """
    for _ in range(_MOST_CONFIRMING_RUNS):
        batch = found.batch
        if batch is None or batch in {point.batch for point in measured.fitting}:
            break
        result = again(batch)
        answer = verdict_of(result).answer
        if answer == "no verdict":
            return measured.fitting, found  # still labeled an extrapolation
        if answer == "fits":
            measured = measured.with_run(result, batch)
            if not _leaves_room(measured, result):
                break
            farther = line(measured.fitting, failed=measured.failed)
            found = farther if (farther.batch or 0) > batch else found
        else:
            measured = measured.without(batch)
            nearer = between(measured.fitting[-1].batch, batch)
            found = found._replace(batch=nearer or batch, is_all_data=False)
            if nearer is None:
                break
    return measured.fitting, _concluded(found, measured)


def _leaves_room(measured: MeasuredBatches, result: RunResult) -> bool:
    device = tightest(devices_of(result))
    peak = measured.fitting[-1].peak_bytes
    return device is not None and peak < NEARLY_FULL * device.limit_bytes


def _concluded(found: Suggestion, measured: MeasuredBatches) -> Suggestion:
    """The suggestion after measuring: the largest batch that fit, or the suggested smaller one."""
    largest = measured.fitting[-1]
    if found.batch is None:
        return found
    if found.batch < largest.batch:  # the largest fits by a hair
        return found._replace(measured_bytes=dict(measured.fitting).get(found.batch))
    return found._replace(
        batch=largest.batch,
        measured_bytes=largest.peak_bytes,
        is_all_data=found.is_all_data and largest.batch >= found.batch,
        failed=measured.failed,
    )


def _further_batches(used: int, *, is_fitting: bool) -> tuple[int, ...]:
    """The batches to try until two fit: successive halves, or 2 if a batch of 1 fits."""
    if used == 1:
        return (2,) if is_fitting else ()
    halves = [used // 2**times for times in range(1, _MOST_FURTHER_RUNS + 1)]
    return tuple(size for size in halves if size)


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
