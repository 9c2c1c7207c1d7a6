"""Why a step failed: from its exception, the end of what TensorFlow wrote, and the card.  Pure."""

from __future__ import annotations

import shlex

from gpuconf.doctor.live import fixes
from gpuconf.doctor.live.evidence import Cause, Evidence, first_line
from gpuconf.doctor.live.library_causes import cause_by_words

_REFUSALS = (
    *("ShortageError", "ProfileError", "ProfileNotFoundError", "TooLateError"),
    *("BackendError", "MissingDependencyError"),
)


def cause_of(evidence: Evidence) -> Cause:
    """What the failure comes to; the most telling words first."""
    error = evidence.error
    if error.hint is not None or error.kind in _REFUSALS:
        return _refused(evidence)
    if error.kind == "WrongResultError":
        return _wrong(evidence)
    if error.kind in ("ImportError", "ModuleNotFoundError"):
        return _not_importable(evidence)
    return cause_by_words(evidence) or _unknown(evidence)


def _refused(evidence: Evidence) -> Cause:
    """gpuconf said no before TensorFlow could: its own message and hint.

    A hint is a sentence, whose quoted commands a shell would run: no fix to paste.
    """
    error, record = evidence.error, evidence.record
    summary, *detail = error.message.splitlines() or [error.kind]
    profile = record.fact("profile")
    fix = f"gpuconf plan {shlex.quote(profile)}" if profile else "gpuconf plan"
    if error.kind == "ShortageError":
        fix = f"nvidia-smi  # then stop what holds the card; the sum: {fix}"
    elif error.kind == "ProfileNotFoundError":
        fix = "gpuconf profiles list"
    if error.kind == "TooLateError":  # its hint is for scripts, and this one begins as it says
        python = shlex.quote(record.fact("python") or "python")
        fix = f"{python} -X importtime -c pass 2>&1 | grep -iE 'tensorflow|customize|[.]pth'"
        detail.append("something imports TensorFlow whenever this Python starts")
    elif error.hint is not None:
        detail.append(f"hint: {error.hint}")
    return Cause(summary.rstrip(":."), fix, tuple(line.strip() for line in detail))


def _wrong(evidence: Evidence) -> Cause:
    return Cause(
        f"the {evidence.step} computes wrong numbers",
        fixes.SEE_KERNEL_LOG,
        (
            evidence.error.message,
            "the same computation by the processor is taken as right; a card that overheats, is "
            "overclocked, or has failing memory does this",
        ),
    )


def _not_importable(evidence: Evidence) -> Cause:
    what = "Keras" if evidence.step == "fit" else "TensorFlow"
    return Cause(
        f"{what} cannot be imported: {first_line(evidence.error)}",
        "pip check; pip install --force-reinstall tensorflow",
    )


def _unknown(evidence: Evidence) -> Cause:
    return Cause(
        f"the {evidence.step} step failed: {first_line(evidence.error)}",
        fixes.by_hand(evidence.record, evidence.only),
        tuple(evidence.error.message.splitlines()[1:6]),
    )
