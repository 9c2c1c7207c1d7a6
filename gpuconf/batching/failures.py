"""Classify an exception: GPU memory exhausted, host memory exhausted, or something else.

TensorFlow, JAX and PyTorch report a full GPU in many ways, and `gpuconf.support.failures`
recognizes them.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.basics.terminal import say
from gpuconf.batching.card import has_cuda
from gpuconf.commands.explain import Proposal, explain
from gpuconf.support.failures import headline, read, read_error
from gpuconf.support.failures.causes import NOT_GPU, OF_GPU_MEMORY

# Causes that a smaller batch can fix. cuDNN also reports an internal error if it finds
# no workspace.
_CARD_IS_FULL = OF_GPU_MEMORY | {"cudnn-internal"}
# cuDNN's statuses for errors that do not depend on the batch.
_NOT_OF_MEMORY = (
    "VERSION_MISMATCH",
    "ARCH_MISMATCH",
    "BAD_PARAM",
    "NOT_SUPPORTED",
    "LOADING_FAILED",
)

# A log with this class is diagnosed as out of memory. Open files and disks can be exhausted too, so
# retrying with a smaller batch requires an allocator's message.
_SAYS_TOO_LITTLE = "ResourceExhaustedError"

# JAX's messages about an argument that was donated to a failed call (``donate_argnums``).
_DONATED = ("has been deleted", "Donation requested for invalid buffer", "was donated")

_OUR_CALLS = re.compile(r"gpuconf\.(?:fit|evaluate|predict|session_evaluate|oom_safe)\(")
_EXPLAINED = "_gpuconf_explained"  # set on an exception whose diagnosis was already printed


class OutOfMemory(NamedTuple):
    """An out-of-memory error: the exception, its first line, whether a smaller batch may help."""

    error: BaseException
    summary: str
    is_of_the_card: bool


def failure_of(error: BaseException, *, computes_on_cpu: bool | None = None) -> OutOfMemory | None:
    """Return the out-of-memory error that an exception reports, or None for any other exception.

    ``computes_on_cpu`` states that there is no GPU, so a failure of TensorFlow's CPU allocator can
    be fixed by a smaller batch. None checks.
    """
    if not _may_be_of_memory(error):
        return None
    kind, text = type(error).__name__, str(error)
    reading = read_error(kind, text)
    # The message of an eager operation starts with its own long name.
    line = f"{kind}: {headline(text, reading)}"
    line = line[max(0, line.find("OOM when")) :]
    summary = line.partition(". GPU ")[0][:200]  # PyTorch appends the state of the whole GPU
    if reading.cause in _CARD_IS_FULL:
        is_curable = not any(word in text for word in _NOT_OF_MEMORY)
        return OutOfMemory(error, summary, True) if is_curable else None
    if reading.cause != "host-oom":
        return OutOfMemory(error, summary, True) if _is_refusal(error) else None
    if "DefaultCPUAllocator" in text:  # PyTorch's; a smaller batch shrinks its CPU tensors
        return OutOfMemory(error, summary, not has_cuda())
    request = reading.facts.request
    is_of_cpu = request.allocator in ("cpu", "mklcpu") or (request.device or "").startswith("CPU")
    if is_of_cpu and "MemoryError" not in line + text:
        on_cpu = _computes_on_cpu() if computes_on_cpu is None else computes_on_cpu
        return OutOfMemory(error, summary, on_cpu)
    return OutOfMemory(error, summary, False)


def attempt(work: Callable[[], Any]) -> tuple[Any, OutOfMemory | None]:
    """Return the result, or the out-of-memory error that occurred; other exceptions are raised.

    The failure is returned so that nothing runs inside the ``except`` block, where the traceback
    keeps alive the tensors whose memory is needed.
    """
    try:
        return work(), None
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        return None, failure


def lost_donated_argument(error: BaseException) -> bool:
    """Whether JAX lacks an argument that was donated to an earlier call."""
    return any(words in str(error) for words in _DONATED)


def explain_on_stderr(error: BaseException, why: str) -> None:
    """Print to stderr why the exception is raised after all, and its diagnosis."""
    with suppress(AttributeError):
        setattr(error, _EXPLAINED, True)
    say(why)
    diagnosis = explain(error)
    proposals = tuple(each for each in diagnosis.proposals if not _is_tried(each))
    explanation = str(diagnosis._replace(proposals=proposals))
    for line in explanation.splitlines():
        say(f"  {line}".rstrip())


def _is_tried(proposal: Proposal) -> bool:
    """Whether the proposal has just been tried: a smaller batch, or one of gpuconf's calls."""
    return proposal.kind == "batch" or _OUR_CALLS.search(proposal.paste) is not None


def explained(what: str, work: Callable[[], Any]) -> Any:
    """Return the result; print a diagnosis for any out-of-memory error that is raised."""
    try:
        return work()
    except Exception as error:
        failure = failure_of(error)
        if failure is not None and not getattr(error, _EXPLAINED, False):
            where = "the GPU's memory" if failure.is_of_the_card else "the host's RAM"
            explain_on_stderr(
                error, f"{what}: no room in {where}, and a smaller batch does not help there"
            )
        raise


def clear_traceback(error: BaseException) -> None:
    """Clear the traceback: its frames keep alive the tensors that occupy the memory."""
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


def _may_be_of_memory(error: BaseException) -> bool:
    """Whether the error is from a framework or a MemoryError; a ValueError may only quote a log."""
    if type(error).__name__ == _SAYS_TOO_LITTLE and read(str(error)).cause == NOT_GPU:
        return False
    if isinstance(error, (MemoryError, RuntimeError)):
        return True
    tensorflow = sys.modules.get("tensorflow")
    errors = getattr(tensorflow, "errors", None)
    return errors is not None and isinstance(error, errors.OpError)


def _is_refusal(error: BaseException) -> bool:
    """Whether the class or the status alone identifies a refusal by JAX or PyTorch.

    PyTorch's class exists in two places.
    """
    if type(error).__module__.startswith("jax") and "RESOURCE_EXHAUSTED" in str(error):
        return True
    torch = sys.modules.get("torch")
    classes = (
        getattr(owner, "OutOfMemoryError", None) for owner in (torch, getattr(torch, "cuda", None))
    )
    return any(isinstance(each, type) and isinstance(error, each) for each in classes)


def _computes_on_cpu() -> bool:
    tensorflow = sys.modules.get("tensorflow")
    config = getattr(tensorflow, "config", None)
    return config is not None and not config.list_logical_devices("GPU")
