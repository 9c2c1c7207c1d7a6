"""The rehearsal as a whole: the first run, further ones for the batch, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpuconf.rehearsal.breakdown import Row, first_step_ns, names_of, rows_of
from gpuconf.rehearsal.runs import Orders, RunResult, run_once
from gpuconf.rehearsal.suggestion import Measurement, Suggestion, suggest
from gpuconf.rehearsal.verdict import Verdict, survived_errors, verdict_of
from gpuconf.simcard import Card, CardSpec

_MOST_FURTHER_RUNS = 4
NOT_EVEN_ONE = "not even one example a step fits"
_CHANGEABLE = ("arrays", "tf.data", "generator", "sequence", "train_on_batch")


class DeviceReport(NamedTuple):
    """One GPU device of TensorFlow: its limit, and in bytes what the program made of it.

    ``card`` is the number of the simulated card it is on, None if unknown; ``held_bytes`` is
    what the processes held on that card at most, all its devices and contexts together.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    card: int | None
    limit_bytes: int
    peak_bytes: int
    held_bytes: int | None
    rows: tuple[Row, ...]

    @property
    def head_room_bytes(self) -> int:
        """What was left of the limit at the peak."""
        return self.limit_bytes - self.peak_bytes


class Rehearsal(NamedTuple):
    """All that is known at the end."""

    command: tuple[str, ...]
    spec: CardSpec
    orders: Orders
    verdict: Verdict
    first: RunResult
    devices: tuple[DeviceReport, ...]
    measurements: tuple[Measurement, ...]
    suggestion: Suggestion | None
    survived: int
    notes: tuple[str, ...]


def rehearse(
    command: Sequence[str],
    orders: Orders,
    *,
    spec: CardSpec,
    card: Card | None,
    environ: Mapping[str, str],
    second_run: bool = True,
    stdout_to_stderr: bool = False,
    run: Callable[..., RunResult] = run_once,
) -> Rehearsal:
    """Run ``command`` once for the verdict and, for a batch to suggest, a few times more."""
    first = run(command, orders, environ=environ, card=card, stdout_to_stderr=stdout_to_stderr)
    verdict = verdict_of(first)
    devices = devices_of(first)
    measurements: tuple[Measurement, ...] = ()
    suggestion = None
    is_refused = verdict.failure is not None and verdict.failure.kind == "refused"
    if verdict.answer != "no verdict" and not is_refused:

        def again(batch: int) -> RunResult:
            title = f"once more, with batch {batch}"
            with_batch = orders._replace(batch=batch)
            return run(command, with_batch, environ=environ, card=card, is_shown=False, title=title)

        measurements, suggestion = _suggestion(first, verdict, again if second_run else None)
    return Rehearsal(
        command=tuple(command),
        spec=spec,
        orders=orders,
        verdict=verdict,
        first=first,
        devices=devices,
        measurements=measurements,
        suggestion=suggestion,
        survived=survived_errors(first),
        notes=tuple(first.trainer.get("notes", ())),
    )


def devices_of(run: RunResult) -> tuple[DeviceReport, ...]:
    """Each GPU device that the run's trace knows."""
    if run.tape is None:
        return ()
    known = {device["index"]: device for device in run.trainer.get("devices", ())}
    names, began = names_of(run.trainer), first_step_ns(run.tape)
    reports = []
    for usage in run.tape.usages:
        card = known.get(usage.index, {}).get("card")
        held = [held.size_bytes for held in run.held if held.card == (card or 0)]
        reports.append(
            DeviceReport(
                index=usage.index,
                card=card,
                limit_bytes=usage.limit_bytes,
                peak_bytes=usage.peak_bytes,
                held_bytes=max(held, default=None),
                rows=rows_of(usage, names, first_step_ns=began),
            )
        )
    return tuple(reports)


def tightest(devices: Sequence[DeviceReport]) -> DeviceReport | None:
    """The device that was nearest to its limit."""
    return max(devices, key=lambda each: each.peak_bytes / max(each.limit_bytes, 1), default=None)


def _suggestion(
    first: RunResult, verdict: Verdict, again: Callable[[int], RunResult] | None
) -> tuple[tuple[Measurement, ...], Suggestion | None]:
    """Measure other batches until two fit; then the line through them."""
    batch = first.trainer.get("batch") or {}
    used = batch.get("used")
    device = tightest(devices_of(first))
    if used is None or device is None or batch.get("kind") not in _CHANGEABLE:
        return (), Suggestion(None, _why_unchangeable(batch, first.trainer.get("steps", 0)))
    fitting = [_measured(first, used)] if verdict.answer == "fits" else []
    failed = None if fitting else used
    if verdict.failure is not None and _is_all_of_the_data(verdict):
        return (), Suggestion(None, "it failed on the data as a whole, not on a batch of it")
    if again is None:
        return tuple(fitting), None
    for size in _further_batches(used, is_fitting=bool(fitting)):
        result = again(size)
        outcome = verdict_of(result)
        if outcome.answer == "fits":
            fitting.append(_measured(result, size))
        elif outcome.answer == "does not fit":
            failed = min(size, failed or size)
        else:
            why_not = f"with a batch of {size} there is no verdict: {outcome.because}"
            return tuple(fitting), Suggestion(None, why_not)
        if len(fitting) == 2:
            break
    if failed == 1:
        return (), Suggestion(None, NOT_EVEN_ONE)
    most = batch.get("examples")
    suggestion = suggest(tuple(fitting), device.limit_bytes, failed=failed, examples=most)
    return tuple(sorted(fitting)), suggestion


def _further_batches(used: int, *, is_fitting: bool) -> tuple[int, ...]:
    """The batches to measure, until two fit: halves; of one that is 1 and fits, the double."""
    if used == 1:
        return (2,) if is_fitting else ()
    halves = [used // 2**times for times in range(1, _MOST_FURTHER_RUNS + 1)]
    return tuple(size for size in halves if size)


def _measured(run: RunResult, batch: int) -> Measurement:
    device = tightest(devices_of(run))
    used = (run.trainer.get("batch") or {}).get("used") or batch
    return Measurement(used, device.peak_bytes if device is not None else 0)


def _is_all_of_the_data(verdict: Verdict) -> bool:
    """Whether it was fit() putting whole arrays on the card, which no batch size changes."""
    return verdict.failure is not None and verdict.failure.node == "_EagerConst"


def _why_unchangeable(batch: Mapping[str, object], steps: int) -> str:
    if not batch and not steps:
        return "it failed before it came to a batch"
    if batch.get("why_not"):
        return f"the batch cannot be changed from outside: {batch['why_not']}"
    if batch:
        return "how many examples a step takes could not be seen"
    return "the program trains in a loop of its own, whose batch cannot be changed from outside"
