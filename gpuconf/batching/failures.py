"""What an exception says: no memory on the card, none in the computer, or something else.

TensorFlow, JAX and PyTorch have many words for a full card; the rules of ``gpuconf explain``
know them.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.diagnosis import Proposal, explain
from gpuconf.terminal import say

# What a smaller batch can cure, by the names of `gpuconf explain`.
_CARD_IS_FULL = frozenset(
    {
        *("oom-device-tensor", "oom-device-startup", "whole-array-copied", "fragmentation"),
        *("cudnn-handle-alloc", "cudnn-internal", "cublas-alloc", "torch-oom", "jax-oom"),
    }
)
# cuDNN's words for what is wrong whatever the batch.
_NOT_OF_MEMORY = (
    "VERSION_MISMATCH",
    "ARCH_MISMATCH",
    "BAD_PARAM",
    "NOT_SUPPORTED",
    "LOADING_FAILED",
)
_OF_THE_CPU_S_ALLOCATOR = re.compile(r"device:CPU:[0-9]+ by allocator|by allocator (?:mkl)?cpu")

_OUR_CALLS = re.compile(r"gpuconf\.(?:fit|evaluate|predict|session_evaluate|oom_safe)\(")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TOLD = "_gpuconf_told"  # on an exception whose diagnosis stands on stderr already


class Failure(NamedTuple):
    """An out-of-memory: the exception, its first line, and whether a smaller batch may help."""

    error: BaseException
    summary: str
    is_of_the_card: bool


def failure_of(error: BaseException, *, computes_on_cpu: bool | None = None) -> Failure | None:
    """The out-of-memory that an exception tells of; None where it is about something else.

    ``computes_on_cpu`` says that there is no card, so that TensorFlow's CPU allocator stands for
    it; None looks.
    """
    if not _may_tell_of_memory(error):
        return None
    text = f"{type(error).__name__}: {error}"
    cause = explain(text).cause
    summary = _summary(text)
    if cause in _CARD_IS_FULL:
        is_curable = not any(word in text for word in _NOT_OF_MEMORY)
        return Failure(error, summary, True) if is_curable else None
    if cause != "host-oom":
        return None
    if _OF_THE_CPU_S_ALLOCATOR.search(text) and "MemoryError" not in text:
        on_cpu = _computes_on_cpu() if computes_on_cpu is None else computes_on_cpu
        return Failure(error, summary, on_cpu)
    return Failure(error, summary, False)


def tell_beside(error: BaseException, why: str) -> None:
    """Say on stderr why the exception that will be raised ends it, with its diagnosis."""
    with suppress(AttributeError):
        setattr(error, _TOLD, True)
    say(why)
    diagnosis = explain(error)
    proposals = tuple(each for each in diagnosis.proposals if not _is_tried(each))
    told = str(diagnosis._replace(proposals=proposals))
    for line in told.splitlines():
        say(f"  {line}".rstrip())


def _is_tried(proposal: Proposal) -> bool:
    """Whether it is what has just failed: smaller batches, and these calls of gpuconf's."""
    return proposal.kind == "batch" or _OUR_CALLS.search(proposal.paste) is not None


def explained(what: str, work: Callable[[], Any]) -> Any:
    """What the work gives; an out-of-memory that comes through gets its diagnosis beside it."""
    try:
        return work()
    except Exception as error:
        failure = failure_of(error)
        if failure is not None and not getattr(error, _TOLD, False):
            where = (
                "the card" if failure.is_of_the_card else "the computer's own memory, not the card"
            )
            tell_beside(
                error, f"{what}: no room in {where}, and not where a smaller batch could help"
            )
        raise


def let_go(error: BaseException) -> None:
    """Drop what the traceback holds: its frames keep alive the tensors that need the memory."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None
        left += [each.__cause__, each.__context__]


def _may_tell_of_memory(error: BaseException) -> bool:
    """Whether it is of a framework, or a MemoryError; a ValueError that quotes a log is not."""
    if isinstance(error, (MemoryError, RuntimeError)):
        return True
    tensorflow = sys.modules.get("tensorflow")
    errors = getattr(tensorflow, "errors", None)
    return errors is not None and isinstance(error, errors.OpError)


def _computes_on_cpu() -> bool:
    tensorflow = sys.modules.get("tensorflow")
    config = getattr(tensorflow, "config", None)
    return config is not None and not config.list_logical_devices("GPU")


def _summary(text: str) -> str:
    """The line that tells most: Keras puts pages of "Detected at node" before it."""
    plain = _COLOURS.sub("", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    telling = [line for line in lines if "OOM" in line or "emory" in line]
    line = (telling or lines)[0]
    # An eager operation says its own long name first.
    return line[max(0, line.find("OOM when")) :][:200]
