"""From the probe's runs to findings, including the headroom of a GPU that passed.  Pure.

Too little headroom leads to CUDNN_STATUS_ALLOC_FAILED: a framework grows to its limit, and the
driver refuses the next handle or workspace that cuDNN requests, hours into a training run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.doctor.finding import Finding, Status
from gpuconf.commands.doctor.live import fixes
from gpuconf.commands.doctor.live.failed_step import Reason
from gpuconf.commands.doctor.live.frameworks import JAX, TORCH
from gpuconf.commands.doctor.live.outcome import (
    CardOutcome,
    FailedProbeStep,
    outcomes,
    start_trouble,
)
from gpuconf.commands.doctor.live.reasons import reason_of_unseen
from gpuconf.commands.doctor.live.record import ChildRun, LiveRecord, Skip
from gpuconf.commands.doctor.probe_results import CardMemory, LiveStep, ProbedCard

_ALLOCATING = {
    "start": "starts under the profile, and lists the GPUs that it should",
    "context": "creates a CUDA context on each GPU",
    "memory": "keeps what is copied to each GPU, and its limit is the plan's",
    "matmul": "computes a correct matrix product on each GPU (cuBLAS's handle)",
    "headroom": "leaves room for its context next to its limit on each GPU",
}
LIVE_CHECKS: dict[str, str] = {
    "live.start": "TensorFlow starts under the profile, and lists the GPUs that it should",
    "live.context": "TensorFlow initializes its GPUs, with a CUDA context on each GPU",
    "live.matmul": "a matrix product is correct on each GPU (cuBLAS's handle)",
    "live.convolution": "a convolution is correct on each GPU (cuDNN's handle)",
    "live.fit": "Keras takes two training steps on each GPU",
    "live.headroom": "the limit, the CUDA context and cuDNN together fit on each GPU",
    **{f"{each.prefix}.{step}": f"{each.title} {about}"
       for each in (TORCH, JAX) for step, about in _ALLOCATING.items()},
}  # fmt: skip
_DONE = {
    "context": "CUDA contexts are created",
    "memory": "memory is allocated, filled and read back",
    "matmul": "a matmul is correct, with cuBLAS",
    "convolution": "a convolution is correct, with cuDNN",
    "fit": "Keras trains",
}
# For cuDNN's and cuBLAS's handles, which growth hides; an estimate, not a measurement.
_LEAST_SPARE = 128 * MIB


def findings_of(runs: Sequence[ChildRun]) -> tuple[Finding, ...]:
    """The findings from one framework's runs: the first with all GPUs, the others with one each."""
    prefix = runs[0].record.framework.prefix
    return tuple(each._replace(id=f"{prefix}.{each.id}") for each in _unprefixed(runs))


def _unprefixed(runs: Sequence[ChildRun]) -> tuple[Finding, ...]:
    """The findings, with only the step's name as id."""
    together = runs[0]
    if together.record.skip is not None:
        return (_skipped(together.record.skip),)
    backend = together.record.fact("keras_backend") or "tensorflow"
    if backend != "tensorflow":
        reason = f"Keras uses the {backend} backend, so TensorFlow is kept off the GPUs"
        return (Finding("start", "skip", reason),)
    trouble = start_trouble(together)
    if trouble is not None and _is_nobodys(together.record):
        return (Finding("start", "skip", "no GPU here", trouble.reason.detail),)
    if trouble is not None:
        steps = together.record.framework.steps
        return (_fail(trouble.step, trouble.reason), *_not_reached(trouble, steps))
    cards = outcomes(runs)
    made = [_start(together)]
    for name in together.record.framework.steps[1:]:
        made += _of_step(name, cards, together.record)
    return (*made, *_headroom(cards, together.record.steps_to_take[-1]))


def _skipped(skip: Skip) -> Finding:
    """Nothing to probe; a warning if the profile uses none of the GPUs that are present."""
    if skip.is_calm:
        return Finding("start", "skip", skip.reason, skip.detail)
    return Finding("start", "warn", skip.reason, skip.detail, "nvidia-smi; gpuconf plan")


def _is_nobodys(record: LiveRecord) -> bool:
    """Whether the framework lists no GPU, and the driver reports none either."""
    return record.fact("listed") == "0" and not record.cards


def _not_reached(trouble: FailedProbeStep, steps: Sequence[str]) -> list[Finding]:
    later = (*steps[steps.index(trouble.step) + 1 :], "headroom")
    return [
        Finding(name, "skip", f"not tried: the {trouble.step} step must pass first")
        for name in later
    ]


def _start(run: ChildRun) -> Finding:
    """The framework has started; a warning if it lists fewer GPUs than the profile uses."""
    record = run.record
    listed, wanted = record.fact("listed") or "?", len(record.cards)
    framework = f"{record.framework.title} {record.fact('version')}"
    detail = [f"profile {record.fact('profile')}" if record.fact("profile") else "no profile"]
    if record.fact("disabled"):
        detail = [f"gpuconf is off: {record.fact('disabled')}"]
    if record.fact("keras"):
        detail.append(str(record.fact("keras")))
    if listed.isdecimal() and int(listed) < wanted:
        reason = reason_of_unseen(record, run.output)
        summary = f"{framework} lists {listed} of {wanted} GPUs: {reason.summary}"
        return Finding("start", "warn", summary, (*detail, *reason.detail), reason.fix)
    if record.notes:
        summary = f"{framework} did not apply all of the profile: {record.notes[0]}"
        return Finding("start", "warn", summary, (*detail, *record.notes[1:]), "gpuconf plan")
    seconds = next((step.seconds for step in record.steps if step.step == "start"), None)
    summary = f"{framework} lists {_gpus(int(listed) if listed.isdecimal() else 0)}"
    return Finding("start", "ok", f"{summary}, {seconds or 0:.1f} s", tuple(detail))


def _of_step(name: str, cards: Sequence[CardOutcome], record: LiveRecord) -> list[Finding]:
    """One finding for all GPUs that passed a step, and one for each that failed."""
    if record.fact("untried") == name:
        return [Finding(name, "skip", f"not tried: {record.fact('why_untried')}")]
    made: list[Finding] = []
    passed = [(card, step) for card in cards for step in card.passed if step.step == name]
    if passed:
        slowest = max(step.seconds or 0.0 for _, step in passed)
        summary = f"{_DONE[name]} on {_gpus(len(passed))}, {slowest:.2f} s"
        lines = tuple(_measured(card, step) for card, step in passed)
        made.append(Finding(name, "ok", summary, lines))
    failed = [(card.card.label, card.trouble) for card in cards]
    made += [
        _fail(name, trouble.reason, label)
        for label, trouble in failed
        if trouble is not None and trouble.step == name
    ]
    made += _only_together(name, cards)
    if not made:
        made.append(Finding(name, "skip", "not tried: an earlier step failed"))
    return made


def _only_together(name: str, cards: Sequence[CardOutcome]) -> list[Finding]:
    """GPUs that pass alone but fail together; reported once."""
    if any(card.trouble is not None for card in cards):
        return []
    found = [card.together for card in cards if card.together and card.together.step == name]
    if not found:
        return []
    summary = f"each GPU works alone, but together they do not: {found[0].reason.summary}"
    return [_fail(name, found[0].reason._replace(summary=summary))]


def _headroom(cards: Sequence[CardOutcome], last: str) -> list[Finding]:
    through = [card for card in cards if any(step.step == last for step in card.passed)]
    found = [_headroom_finding(card.card, card.record) for card in through]
    known = [finding for finding in found if finding is not None]
    why = "there is no limit to compare with" if through else "not tried: an earlier step failed"
    return known or [Finding("headroom", "skip", why)]


def _fail(check: str, reason: Reason, label: str | None = None) -> Finding:
    status: Status = "fail"
    summary = f"{label}: {reason.summary}" if label else reason.summary
    return Finding(check, status, summary, reason.detail, reason.fix)


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _measured(outcome: CardOutcome, step: LiveStep) -> str:
    """The time and memory of one step on one GPU, as far as known."""
    place = outcome.card.place
    number = step.cards.index(place)
    before = step.before[number] if number < len(step.before) else CardMemory()
    after = step.after[number] if number < len(step.after) else CardMemory()
    parts = [f"{step.seconds or 0:.2f} s"]
    if before.used_bytes is not None and after.used_bytes is not None:
        parts.append(
            f"in use on the GPU {sized(before.used_bytes)}, then {sized(after.used_bytes)}"
        )
    if after.own_bytes is not None:
        parts.append(f"of which this process {sized(after.own_bytes)}")
    if after.peak_bytes:
        parts.append(f"tensors at most {sized(after.peak_bytes)}")
    return f"{outcome.card.label}: {', '.join(parts)}"


class _Headroom(NamedTuple):
    """The memory that a process needs beyond its limit, and what the GPU has left.

    ``overhead_bytes``: the CUDA context, and without growth also the handles. ``spare_bytes``: what
    is left when the process uses its full limit; if negative, it cannot get there.
    """

    overhead_bytes: int
    spare_bytes: int


def _headroom_on(card: ProbedCard, record: LiveRecord) -> _Headroom | None:
    """The headroom on a GPU that passed all steps; None if figures are missing."""
    overhead = _overhead_bytes(card, record)
    if overhead is None or card.limit_bytes is None or card.free_bytes is None:
        return None
    free = card.free_bytes - (card.promised_bytes or 0)
    return _Headroom(overhead, free - card.limit_bytes - overhead)


def _headroom_finding(card: ProbedCard, record: LiveRecord) -> Finding | None:
    """A finding about the headroom; None if it is unknown."""
    room = _headroom_on(card, record)
    if room is None or card.limit_bytes is None:
        return None
    taken = f"{sized(room.overhead_bytes)} next to its limit of {sized(card.limit_bytes)}"
    if room.spare_bytes >= _LEAST_SPARE:
        summary = f"{card.label}: a process takes {taken}, and {sized(room.spare_bytes)} are left"
        return Finding("headroom", "ok", summary)
    left = sized(max(0, room.spare_bytes))
    return Finding(
        "headroom",
        "warn",
        f"{card.label}: a process takes {taken}, which leaves {left} for cuDNN",
        (
            *fixes.memory_lines(card),
            "a training run that grows to its limit fails with CUDNN_STATUS_ALLOC_FAILED or "
            "CUDA_ERROR_OUT_OF_MEMORY",
        ),
        fixes.leave_more_room(record, room.overhead_bytes + 512 * MIB),
    )


def _overhead_bytes(card: ProbedCard, record: LiveRecord) -> int | None:
    """The memory that the process holds beyond what its allocator holds.

    With growth, measured after the context is created, before the first tensor. Without growth,
    measured at the end, when the allocator holds its full limit.
    """
    place = card.place
    of_card = [step for step in record.steps if place in step.cards and step.has_passed]
    context = next((step for step in of_card if step.step == "context"), None)
    if context is None:
        return None
    step = context if card.allow_growth is not False else of_card[-1]
    held = _held_bytes(card, step.after, step.cards.index(place))
    if held is None or card.limit_bytes is None:
        return None
    return held - card.limit_bytes if held >= card.limit_bytes else held


def _held_bytes(card: ProbedCard, after: tuple[CardMemory, ...], number: int) -> int | None:
    """The process's memory on the GPU: from NVML, or else from the drop in free memory."""
    memory = after[number] if number < len(after) else CardMemory()
    if memory.own_bytes is not None:
        return memory.own_bytes
    if memory.free_bytes is None or card.free_bytes is None:
        return None
    return max(0, card.free_bytes - memory.free_bytes)
