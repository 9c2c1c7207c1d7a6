"""The rehearsal as a whole: the first run, further ones for the batch, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gpuconf.rehearsal.devices import DeviceReport, devices_of
from gpuconf.rehearsal.measuring import find_batch
from gpuconf.rehearsal.runs import Orders, RunResult, run_once
from gpuconf.rehearsal.suggestion import Measurement, Suggestion
from gpuconf.rehearsal.verdict import Verdict, survived_errors, verdict_of
from gpuconf.simcard import Card, CardSpec


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
    measurements: tuple[Measurement, ...] = ()
    suggestion = None
    is_refused = verdict.failure is not None and verdict.failure.kind == "refused"
    if verdict.answer != "no verdict" and not is_refused:
        again = _again(partial(run, command, environ=environ, card=card), orders)
        measurements, suggestion = find_batch(first, verdict, again if second_run else None)
    return Rehearsal(
        command=tuple(command),
        spec=spec,
        orders=orders,
        verdict=verdict,
        first=first,
        devices=devices_of(first),
        measurements=measurements,
        suggestion=suggestion,
        survived=survived_errors(first),
        notes=tuple(first.trainer.get("notes", ())),
    )


def _again(run: Callable[..., RunResult], orders: Orders) -> Callable[[int], RunResult]:
    def again(batch: int) -> RunResult:
        title = f"once more, with batch {batch}"
        return run(orders._replace(batch=batch), is_shown=False, title=title)

    return again
