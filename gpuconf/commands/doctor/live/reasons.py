"""Why a step failed, or too few GPUs are listed: from the exception, log and card.  Pure."""

from __future__ import annotations

import shlex

from gpuconf.commands.doctor.live import fixes
from gpuconf.commands.doctor.live.by_cause import reason_by_cause
from gpuconf.commands.doctor.live.failed_step import FailedStep, Reason, first_line, last_words
from gpuconf.commands.doctor.live.frameworks import TENSORFLOW
from gpuconf.commands.doctor.live.record import LiveRecord
from gpuconf.commands.doctor.measured import StepError
from gpuconf.support.failures import read, read_error

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
        why = f"the limit does not hold: {error.message}"
        return Reason(why, "gpuconf doctor environment profile")
    if error.kind in ("ImportError", "ModuleNotFoundError"):
        return _not_importable(failed)
    reading = read_error(error.kind, error.message, failed.log)
    return reason_by_cause(failed, reading) or _unknown(failed)


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
            "the CPU's result of the same computation counts as correct; a card that overheats, is "
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


def _unknown(failed: FailedStep) -> Reason:
    return Reason(
        f"the {failed.step} step failed: {first_line(failed.error)}",
        fixes.by_hand(failed.record, failed.only),
        tuple(failed.error.message.splitlines()[1:6]),
    )


def reason_of_unseen(record: LiveRecord, log: str) -> Reason:
    """Why the framework lists none or few of the cards in ``record``, from its log."""
    framework = record.framework
    if record.fact("is_cuda_build") == "False":
        remove = "pip uninstall -y tensorflow-cpu; " if framework is TENSORFLOW else ""
        why = f"this {framework.title} was built without CUDA"
        return Reason(why, f"{remove}{framework.install}")
    failed = FailedStep("start", StepError("", ""), record, log)
    found = reason_by_cause(failed, read(log))
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
