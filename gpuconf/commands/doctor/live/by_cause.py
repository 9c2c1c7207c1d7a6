"""A cause found by `gpuconf.support.failures` -> its meaning on this card, and the fix.  Pure.

Where memory is the cause, the card's own figures say more than a log.  Anything else is answered as
`gpuconf explain` answers it, by the first command of its changes.
"""

from __future__ import annotations

import shlex

from gpuconf.basics.units import GIB, sized
from gpuconf.commands.doctor.live import fixes
from gpuconf.commands.doctor.live.failed_step import FailedStep, Reason, first_line
from gpuconf.commands.doctor.measured import ProbedCard
from gpuconf.support.failures import Reading
from gpuconf.support.failures.causes import CAUSES, NOT_GPU, OF_GPU_MEMORY
from gpuconf.support.failures.proposals import proposals_for
from gpuconf.support.failures.proposals.libraries import missing_libraries

_BESIDE = "cuDNN's and cuBLAS's handles and workspaces come in addition to the limit"
_SAYS_SO = "a profile with `at_least`, such as shared-desktop, says so at once"


def reason_by_cause(failed: FailedStep, reading: Reading) -> Reason | None:
    """The meaning of the cause on this card; None if no cause was found."""
    cause = reading.cause
    if cause == NOT_GPU:
        return None
    if cause == "cublas-alloc":
        made = _cublas(failed, reading)
    elif cause in ("cudnn-handle-alloc", "cudnn-internal"):
        made = _cudnn(failed, reading)
    elif cause in OF_GPU_MEMORY and cause != "vgpu-limit":
        made = _memory(failed, reading)
    else:
        made = _as_explained(failed, reading)
    return made._replace(cause=cause)


def _as_explained(failed: FailedStep, reading: Reading) -> Reason:
    """What `gpuconf explain` says of it, though no program of the user's is at fault here."""
    known = reading.facts.framework or failed.record.framework.package
    facts = reading.facts._replace(framework=known)  # type: ignore[arg-type]
    missing = ", ".join(missing_libraries(facts))
    named = f" ({missing})" if missing else _status(reading)
    means = reading.evidence[0].means if reading.evidence else CAUSES[reading.cause].title
    summary = f"{means}{named}: the {failed.step} step failed"
    if reading.cause == "illegal-address" and "card_lost" not in facts.details:
        return Reason(summary, fixes.SEE_KERNEL_LOG, _shown(reading))
    changes = proposals_for(reading.cause, "failure", facts)
    commands = [change for change in changes if change.kind == "command"]
    first = next((each for each in commands if not each.paste.startswith("gpuconf")), None)
    if first is None:
        return Reason(summary, fixes.by_hand(failed.record, failed.only), _shown(reading))
    fix = "; ".join(first.paste.splitlines())
    return Reason(summary, fix, (first.title, first.reason, *_shown(reading)))


def _cudnn(failed: FailedStep, reading: Reading) -> Reason:
    if reading.cause == "cudnn-internal" and not _is_tight(failed):
        return Reason(
            f"cuDNN does not work{_status(reading)}",
            f"unset LD_LIBRARY_PATH; {failed.record.framework.install}",
            (*_said(failed, reading), "a full card is the other cause of this"),
        )
    return Reason(
        f"no memory is left for cuDNN in the {failed.step}{_status(reading)}",
        fixes.leave_room_for_handles(failed.record, failed.card),
        (*fixes.memory_lines(failed.card), _BESIDE),
    )


def _cublas(failed: FailedStep, reading: Reading) -> Reason:
    return Reason(
        "cuBLAS's handle cannot be made, most often for lack of memory",
        fixes.leave_room_for_handles(failed.record, failed.card),
        (*_shown(reading), *fixes.memory_lines(failed.card), _BESIDE),
    )


def _memory(failed: FailedStep, reading: Reading) -> Reason:
    card = failed.card
    lines = (*_said(failed, reading), *fixes.memory_lines(card))
    if failed.step in ("start", "context"):
        free = "" if card is None or card.free_bytes is None else f": {sized(card.free_bytes)} free"
        return Reason(
            f"no CUDA context can be made, the card is full{free}",
            fixes.free_the_card(card, failed.others),
            (*lines, "a context takes some 300 to 600 MB before the first tensor", _SAYS_SO),
        )
    if _limit_is_the_wall(card):
        return Reason(
            f"out of memory in the {failed.step}: the profile allows too little",
            f"gpuconf plan {shlex.quote(failed.record.fact('profile') or '')}  "
            "# shows which rule makes the limit: raise that one",
            lines,
        )
    return Reason(
        f"out of memory in the {failed.step}, which needs less than 100 MB: the card is full",
        fixes.free_the_card(card, failed.others),
        lines,
    )


def _status(reading: Reading) -> str:
    status = reading.facts.details.get("status")
    return f" ({status})" if status else ""


def _said(failed: FailedStep, reading: Reading) -> tuple[str, ...]:
    """The exception in one line, otherwise the lines of the log."""
    return (first_line(failed.error),) if failed.error.kind else _shown(reading)


def _shown(reading: Reading) -> tuple[str, ...]:
    """The lines that show the cause."""
    return tuple(line.text[:300] for line in reading.evidence[:4])


def _limit_is_the_wall(card: ProbedCard | None) -> bool:
    """Whether the limit is far below the memory that was free."""
    if card is None or card.limit_bytes is None or card.free_bytes is None:
        return False
    return card.limit_bytes < card.free_bytes / 2


def _is_tight(failed: FailedStep) -> bool:
    """Whether less than 1 GiB was free on the card when the step began."""
    steps = [step for step in failed.record.steps if step.step == failed.step and step.before]
    free = [memory.free_bytes for step in steps for memory in step.before]
    return any(size is not None and size < GIB for size in free)
