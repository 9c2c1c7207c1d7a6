"""The result for each GPU, combined from its runs.  Pure.

There is one run with all GPUs. If that fails and there are several GPUs, each GPU that did not pass
gets a separate run. A child may also crash or hang; its exit is interpreted here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.commands.doctor.live import fixes
from gpuconf.commands.doctor.live.failed_step import FailedStep, Reason, last_words
from gpuconf.commands.doctor.live.reasons import reason_of, reason_of_unseen
from gpuconf.commands.doctor.live.record import ChildRun, LiveRecord
from gpuconf.commands.doctor.probe_results import LiveStep, ProbedCard
from gpuconf.support.children.signals import signal_name

_MEANINGS = {
    "SIGKILL": (
        "most often the system, out of host memory",
        "sudo dmesg -T | grep -iE 'out of memory|killed process' | tail; free -h",
    ),
    "SIGILL": (
        "this build of the framework uses instructions that the processor does not have",
        "grep -m1 -o -w avx2 /proc/cpuinfo  # nothing? it needs one built without AVX",
    ),
    "SIGBUS": ("a file system that is full, /dev/shm too, or a bad disk", "df -h /dev/shm /tmp"),
    "SIGTERM": ("a person or a job scheduler ended it", fixes.AGAIN),
    "SIGXCPU": ("a limit of processor time", "ulimit -t"),
}
_CRASH = (
    "a crash in the framework, a CUDA library or the driver; a mix of CUDA versions can cause this",
    "unset LD_LIBRARY_PATH; pip check; {by_hand}",
)


class FailedProbeStep(NamedTuple):
    """The step that failed, and the reason."""

    step: str
    reason: Reason


class CardOutcome(NamedTuple):
    """The result for one GPU: the steps that passed, and its problem.

    ``together`` is the problem in the run with all GPUs, if the GPU was tried again alone.
    """

    card: ProbedCard
    record: LiveRecord
    passed: tuple[LiveStep, ...] = ()
    trouble: FailedProbeStep | None = None
    together: FailedProbeStep | None = None


def places_of(record: LiveRecord) -> tuple[int, ...]:
    """The GPUs of the run, in the framework's numbering."""
    context = next((step for step in record.steps if step.step == "context"), None)
    return tuple(card.place for card in record.cards) if context is None else context.cards


def places_to_try_alone(run: ChildRun) -> tuple[int, ...]:
    """The GPUs that did not pass in a failed run with several GPUs.

    Empty if the framework itself did not start, since it would not start for one GPU either.
    """
    places = places_of(run.record)
    has_started = any(step.step == "start" and step.has_passed for step in run.record.steps)
    if len(places) < 2 or not has_started or run.record.skip is not None:
        return ()
    return tuple(place for place in places if not _came_through(run, place))


def outcomes(runs: Sequence[ChildRun]) -> tuple[CardOutcome, ...]:
    """The result for each GPU; the first of ``runs`` is the one with all GPUs."""
    together = runs[0]
    alone = {run.only: run for run in runs[1:]}
    return tuple(
        _outcome(place, together, alone.get(place)) for place in places_of(together.record)
    )


def start_trouble(run: ChildRun) -> FailedProbeStep | None:
    """Why the framework did not start or list its GPUs; None if it did."""
    for step in run.record.steps:
        if step.step == "start" and step.error is not None:
            if run.record.fact("listed") == "0":
                return FailedProbeStep("start", reason_of_unseen(run.record, run.output))
            return FailedProbeStep("start", _explain(run, step, None))
    last = _last_step(run)
    reason = _reason_of_death(run, last) if last.step == "start" else None
    return None if reason is None else FailedProbeStep("start", reason)


def _outcome(place: int, together: ChildRun, alone: ChildRun | None) -> CardOutcome:
    run = together if alone is None else alone
    card = (
        _card(place, run.record)
        or _card(place, together.record)
        or ProbedCard(place, f"GPU {place}")
    )
    passed = tuple(s for s in run.record.steps if place in s.cards and s.has_passed)
    trouble = start_trouble(run) if alone is not None else None
    return CardOutcome(
        card,
        run.record,
        passed,
        trouble or _trouble(run, place),
        None if alone is None else _trouble(together, place),
    )


def _trouble(run: ChildRun, place: int) -> FailedProbeStep | None:
    """The first problem on a GPU."""
    for step in run.record.steps:
        if place in step.cards and step.error is not None:
            return FailedProbeStep(step.step, _explain(run, step, place))
    last = _last_step(run)
    reason = _reason_of_death(run, last) if place in last.cards else None
    return None if reason is None else FailedProbeStep(last.step, reason)


def _explain(run: ChildRun, step: LiveStep, place: int | None) -> Reason:
    assert step.error is not None
    is_one = place is not None and len(step.cards) == 1
    failed = FailedStep(
        step.step,
        step.error,
        run.record,
        run.output,
        card=_card(place, run.record) if is_one else None,
        only=run.only,
    )
    return reason_of(failed)


def _came_through(run: ChildRun, place: int) -> bool:
    done = {step.step for step in run.record.steps if place in step.cards and step.has_passed}
    return run.record.steps_to_take[-1] in done and _trouble(run, place) is None


def _card(place: int | None, record: LiveRecord) -> ProbedCard | None:
    return next((card for card in record.cards if card.place == place), None)


def _last_step(run: ChildRun) -> LiveStep:
    """The step in which a run ended: the unfinished one, otherwise the one after the last."""
    if run.record.unfinished is not None:
        return run.record.unfinished
    done = run.record.steps[-1] if run.record.steps else LiveStep("start")
    steps = run.record.steps_to_take
    following = (
        steps[min(steps.index(done.step) + 1, len(steps) - 1)] if done.step in steps else "start"
    )
    return LiveStep(following if run.record.steps else "start", done.cards)


def _reason_of_death(run: ChildRun, step: LiveStep) -> Reason | None:
    """Why ``run`` ended prematurely; None if it did not."""
    if run.code is None:
        return _hung(run, step)
    name = signal_name(-run.code) if run.code < 0 else None
    if name is None and (run.code == 0 or run.record.is_over):
        return None
    when = "after its last step" if run.record.is_over else f"in the {step.step} step"
    lines = last_words(run.output)
    if name is None:
        summary = f"the probe ended with exit code {run.code} {when}"
        return Reason(summary, fixes.by_hand(run.record, run.only), lines)
    why, fix = _MEANINGS.get(name, _CRASH)
    fix = fix.format(by_hand=fixes.by_hand(run.record, run.only))
    return Reason(f"the probe was killed by {name} {when}", fix, (why, *lines))


def _hung(run: ChildRun, step: LiveStep) -> Reason:
    lines = last_words(run.output)
    if run.is_stuck:
        lines = ("not even SIGKILL ended it: it hangs inside the driver", *lines)
    return Reason(
        f"the probe was still in the {step.step} step after {run.timeout_s:.0f} s, and was ended",
        fixes.SEE_KERNEL_LOG if run.is_stuck else fixes.with_more_time(run.timeout_s),
        lines,
    )
