"""Why a step failed, or too few GPUs are listed: what `gpuconf explain` says about it.  Pure.

The log is the probe's own, and the GPU's figures are the driver's.  gpuconf's own errors speak for
themselves.
"""

from __future__ import annotations

import shlex

from gpuconf.commands.doctor.live import fixes
from gpuconf.commands.doctor.live.failed_step import FailedStep, Reason, first_line, last_words
from gpuconf.commands.doctor.live.frameworks import TENSORFLOW
from gpuconf.commands.doctor.live.record import LiveRecord
from gpuconf.commands.doctor.probe_results import ProbedCard, StepError
from gpuconf.support.failures import Reading, read, read_error
from gpuconf.support.failures.causes import CAUSES, NOT_GPU, OF_GPU_MEMORY
from gpuconf.support.failures.facts.card import LoggedCard, LoggedProcess
from gpuconf.support.failures.proposals import proposals_for
from gpuconf.support.failures.proposals.libraries import missing_libraries
from gpuconf.support.failures.proposals.proposal import Proposal

_REFUSALS = (
    *("ShortageError", "ProfileError", "ProfileNotFoundError", "TooLateError"),
    *("BackendError", "MissingDependencyError"),
)


def reason_of(failed: FailedStep) -> Reason:
    """Why the step failed: gpuconf's own errors first, then the exception and the log."""
    error = failed.error
    if error.hint is not None or error.kind in _REFUSALS:
        return _refused(failed)
    if error.kind == "WrongResultError":
        return _wrong(failed)
    if error.kind == "LimitNotHeldError":
        why = f"the limit does not apply: {error.message}"
        return Reason(why, "gpuconf doctor environment profile")
    if error.kind in ("ImportError", "ModuleNotFoundError"):
        return _not_importable(failed)
    reading = read_error(error.kind, error.message, failed.log)
    return _as_explained(failed, reading) or _unknown(failed)


def _refused(failed: FailedStep) -> Reason:
    """gpuconf raised an error before the framework could: its own message and hint.

    A hint is a sentence with quoted commands, which a shell would run, so it is not a fix to paste.
    """
    error, record = failed.error, failed.record
    summary, *detail = error.message.splitlines() or [error.kind]
    profile = record.fact("profile")
    fix = f"gpuconf plan {shlex.quote(profile)}" if profile else "gpuconf plan"
    if error.kind == "ShortageError":
        fix = "gpuconf ps   # find and stop what is using the GPU"
    elif error.kind == "ProfileNotFoundError":
        fix = "gpuconf profiles list"
    if error.kind == "TooLateError":  # its hint is about scripts; this one already starts that way
        python = shlex.quote(record.fact("python") or "python")
        fix = f"{python} -X importtime -c pass 2>&1 | grep -iE "
        fix += f"'{record.framework.package}|customize|[.]pth'"
        detail.append(f"something imports {record.framework.title} whenever this Python starts")
    elif error.hint is not None:
        detail.append(f"hint: {error.hint}")
    return Reason(summary.rstrip(":."), fix, tuple(line.strip() for line in detail))


def _wrong(failed: FailedStep) -> Reason:
    return Reason(
        f"the {failed.step} computes wrong numbers",
        fixes.SEE_KERNEL_LOG,
        (
            failed.error.message,
            "the CPU's result of the same computation counts as correct; a GPU that overheats, is "
            "overclocked, or has failing memory does this",
        ),
    )


def _not_importable(failed: FailedStep) -> Reason:
    framework = failed.record.framework
    what = "Keras" if failed.step == "fit" else framework.title
    return Reason(
        f"{what} cannot be imported: {first_line(failed.error)}",
        f"pip check; pip install --force-reinstall {framework.package}",
    )


def _as_explained(failed: FailedStep, reading: Reading) -> Reason | None:
    """What `gpuconf explain` says about the log for this GPU; None if it finds no cause."""
    if reading.cause == NOT_GPU:
        return None
    known = reading.facts.framework or failed.record.framework.package
    facts = reading.facts._replace(framework=known, shows_old_tensorflow=False)  # type: ignore[arg-type]
    if failed.card is not None:
        facts = facts._replace(card=_logged(failed.card, facts.card))
    missing, status = ", ".join(missing_libraries(facts)), facts.details.get("status")
    named = f" ({missing or status})" if missing or status else ""
    telling = (line.means for line in reading.evidence if not line.generic)
    means = next(telling, CAUSES[reading.cause].title)
    shown = [first_line(failed.error)] if failed.error.kind else []
    shown += [line.text[:300] for line in reading.evidence[:4]]
    if reading.cause in OF_GPU_MEMORY:
        shown += fixes.memory_lines(failed.card)
    roomier = _roomier(failed) if reading.cause in OF_GPU_MEMORY else None
    if reading.cause in OF_GPU_MEMORY and _limit_is_the_wall(failed.card):
        profile = shlex.quote(failed.record.fact("profile") or "")
        fix = f"gpuconf plan {profile}  # shows which rule makes the limit: raise that one"
        wall = f"the profile allows too little for the {failed.step} step"
        return Reason(wall, fix, tuple(dict.fromkeys(shown)), reading.cause)
    changes = proposals_for(reading.cause, "failure", facts)
    first = next((each for each in changes if _can_be_tried(each)), None)
    summary = f"{means}{named}: the {failed.step} step failed"
    if roomier is not None:
        fix = f"export CUDA_VISIBLE_DEVICES={roomier.uuid}  # more of its memory is free"
        return Reason(summary, fix, tuple(dict.fromkeys(shown)), reading.cause)
    if first is None:
        fix = fixes.by_hand(failed.record, failed.only)
        return Reason(summary, fix, tuple(dict.fromkeys(shown)), reading.cause)
    fix = "; ".join(first.paste.splitlines())
    if first.kind == "profile":
        fix = fixes.probe_with(failed.record, first.paste)
    said = (first.title, first.reason, *dict.fromkeys(shown))
    return Reason(summary, fix, said, reading.cause)


def _roomier(failed: FailedStep) -> ProbedCard | None:
    """The other GPU with the most free memory, if it has twice as much as the one that failed."""
    here = failed.card
    if here is None or here.free_bytes is None:
        return None
    others = [card for card in failed.record.cards if card.uuid not in (None, here.uuid)]
    best = max(others, key=lambda card: card.free_bytes or 0, default=None)
    return best if best and (best.free_bytes or 0) > 2 * here.free_bytes else None


def _limit_is_the_wall(card: ProbedCard | None) -> bool:
    """Whether the limit is far below the memory that was free."""
    if card is None or card.limit_bytes is None or card.free_bytes is None:
        return False
    return card.limit_bytes < card.free_bytes / 2


def _can_be_tried(change: Proposal) -> bool:
    """Whether a change is for this machine, not a script, and does not lead back to the doctor."""
    elsewhere = change.paste.startswith("gpuconf doctor") or "train.py" in change.paste
    return change.kind == "profile" or (change.kind == "command" and not elsewhere)


def _logged(card: ProbedCard, logged: LoggedCard | None) -> LoggedCard:
    """The GPU with the driver's figures, which say more than those in the log."""
    holders = (LoggedProcess(each.pid, each.name, each.used_bytes or 0) for each in card.holders)
    return (logged or LoggedCard())._replace(
        total_bytes=card.total_bytes,
        free_bytes=card.free_bytes,
        limit_bytes=card.limit_bytes,
        holders=tuple(holders),
    )


def _unknown(failed: FailedStep) -> Reason:
    return Reason(
        f"the {failed.step} step failed: {first_line(failed.error)}",
        fixes.by_hand(failed.record, failed.only),
        tuple(failed.error.message.splitlines()[1:6]),
    )


def reason_of_unseen(record: LiveRecord, log: str) -> Reason:
    """Why the framework lists none or few of the GPUs in ``record``, from its log."""
    framework = record.framework
    if record.fact("is_cuda_build") == "False":
        remove = "pip uninstall -y tensorflow-cpu; " if framework is TENSORFLOW else ""
        why = f"this {framework.title} was built without CUDA"
        return Reason(why, f"{remove}{framework.install}")
    failed = FailedStep("start", StepError("", ""), record, log)
    found = _as_explained(failed, read(log))
    if found is not None:
        return found
    words = () if framework is TENSORFLOW else last_words(log)  # its log has many harmless lines
    why = f": {words[-1]}" if words else ", and does not say why"
    return Reason(
        f"{framework.title} lists too few GPUs{why}",
        fixes.by_hand(record),
        (
            *words[:-1],
            f"missing CUDA libraries are the usual reason: {framework.install}",
        ),
    )
