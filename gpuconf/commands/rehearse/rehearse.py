"""The complete rehearsal: the first run, more runs for the batch size, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from gpuconf.commands.rehearse.breakdown import DeviceReport, devices_of
from gpuconf.commands.rehearse.measuring import Again, find_batch
from gpuconf.commands.rehearse.runs import Orders, RunResult, run_once
from gpuconf.commands.rehearse.suggestion import Measurement, Suggestion
from gpuconf.commands.rehearse.target import Allowance, allowances
from gpuconf.commands.rehearse.verdict import Verdict, survived_errors, verdict_of
from gpuconf.simcard import Card, CardSpec, XlaSupport

OtherBatches = Literal["always", "where it does not fit", "never"]


class Rehearsal(NamedTuple):
    """The final results.

    ``allowances`` are the profiles' limits on this GPU. ``interrupted`` is the exit code of a
    signal that arrived after the verdict, while other batch sizes were being measured. ``xla``
    describes the XLA that compiled the steps; None if they ran operation by operation.
    """

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
    allowances: tuple[Allowance, ...] = ()
    interrupted: int | None = None
    xla: XlaSupport | None = None

    @property
    def exit_code(self) -> int:
        """The verdict's exit code, unless a signal ended the rehearsal."""
        return self.verdict.exit_code if self.interrupted is None else self.interrupted


def rehearse(
    command: Sequence[str],
    orders: Orders,
    *,
    spec: CardSpec,
    card: Card | None,
    environ: Mapping[str, str],
    xla: XlaSupport | None = None,
    other_batches: OtherBatches = "where it does not fit",
    stdout_to_stderr: bool = False,
    when_known: Callable[[Rehearsal], None] = lambda _: None,
    run: Callable[..., RunResult] = run_once,
) -> Rehearsal:
    """Run ``command`` once for the verdict, and a few more times to suggest a batch size.

    ``when_known`` is called with the verdict before any further run.
    """
    first = run(command, orders, environ=environ, card=card, stdout_to_stderr=stdout_to_stderr)
    verdict = verdict_of(first)
    done = Rehearsal(
        command=tuple(command),
        spec=spec,
        orders=orders,
        verdict=verdict,
        first=first,
        devices=devices_of(first),
        measurements=(),
        suggestion=None,
        survived=survived_errors(first),
        notes=tuple(first.trainer.get("notes", ())),
        allowances=allowances(spec) if verdict.answer == "does not fit" else (),
        xla=xla,
    )
    when_known(done)
    is_wanted = other_batches == "always" or (
        other_batches == "where it does not fit" and verdict.answer == "does not fit"
    )
    again = _again(partial(run, command, environ=environ, card=card), orders)
    return _with_other_batches(done, again if is_wanted else None)


def _with_other_batches(done: Rehearsal, again: Again | None) -> Rehearsal:
    """Measure other batch sizes if that is useful; a signal now does not cancel the verdict."""
    verdict = done.verdict
    is_refused = verdict.failure is not None and verdict.failure.kind == "refused"
    if verdict.answer == "no verdict" or is_refused:
        return done
    try:
        measurements, suggestion = find_batch(done.first, verdict, again)
    except (KeyboardInterrupt, SystemExit) as stop:
        code = stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else 130
        suggestion = Suggestion(None, "interrupted before other batches were measured")
        return done._replace(suggestion=suggestion, interrupted=code)
    return done._replace(measurements=measurements, suggestion=suggestion)


def _again(run: Callable[..., RunResult], orders: Orders) -> Again:
    def again(batch: int) -> RunResult:
        title = f"once more, with batch {batch}"
        return run(orders._replace(batch=batch, whole=False), is_shown=False, title=title)

    return again
