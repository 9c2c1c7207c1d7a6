"""What an exception says: no memory on the card, none in the computer, or something else.

TensorFlow, JAX and PyTorch have many words for a full card; `gpuconf.messages` knows them.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.batching.card import has_cuda
from gpuconf.diagnosis import Proposal, explain
from gpuconf.messages import headline, read, read_error
from gpuconf.messages.causes import NOT_GPU, OF_GPU_MEMORY
from gpuconf.terminal import say

# What a smaller batch can cure.  cuDNN also fails in itself when it finds no workspace.
_CARD_IS_FULL = OF_GPU_MEMORY | {"cudnn-internal"}
# cuDNN's words for what is wrong whatever the batch.
_NOT_OF_MEMORY = (
    "VERSION_MISMATCH",
    "ARCH_MISMATCH",
    "BAD_PARAM",
    "NOT_SUPPORTED",
    "LOADING_FAILED",
)

# A log with this class in it is explained as a lack of memory; open files and disks are exhausted
# too, and to try again with a smaller batch needs the words of an allocator.
_SAYS_TOO_LITTLE = "ResourceExhaustedError"

# What JAX says of an argument that a failed call had been given for good (``donate_argnums``).
_DONATED = ("has been deleted", "Donation requested for invalid buffer", "was donated")

_OUR_CALLS = re.compile(r"gpuconf\.(?:fit|evaluate|predict|session_evaluate|oom_safe)\(")
_EXPLAINED = "_gpuconf_explained"  # on an exception whose diagnosis stands on stderr already


class OutOfMemory(NamedTuple):
    """An out-of-memory: the exception, its first line, and whether a smaller batch may help."""

    error: BaseException
    summary: str
    is_of_the_card: bool


def failure_of(error: BaseException, *, computes_on_cpu: bool | None = None) -> OutOfMemory | None:
    """The out-of-memory that an exception reports; None where it is about something else.

    ``computes_on_cpu`` says that there is no card, so that TensorFlow's CPU allocator stands for
    it; None looks.
    """
    if not _may_be_of_memory(error):
        return None
    kind, text = type(error).__name__, str(error)
    reading = read_error(kind, text)
    # An eager operation says its own long name first.
    line = f"{kind}: {headline(text, reading)}"
    line = line[max(0, line.find("OOM when")) :]
    summary = line.partition(". GPU ")[0][:200]  # PyTorch's goes on with the whole card
    if reading.cause in _CARD_IS_FULL:
        is_curable = not any(word in text for word in _NOT_OF_MEMORY)
        return OutOfMemory(error, summary, True) if is_curable else None
    if reading.cause != "host-oom":
        return OutOfMemory(error, summary, True) if _is_refusal(error) else None
    if "DefaultCPUAllocator" in text:  # PyTorch's, whose tensors on the CPU a smaller batch shrinks
        return OutOfMemory(error, summary, not has_cuda())
    request = reading.facts.request
    is_of_cpu = request.allocator in ("cpu", "mklcpu") or (request.device or "").startswith("CPU")
    if is_of_cpu and "MemoryError" not in line + text:
        on_cpu = _computes_on_cpu() if computes_on_cpu is None else computes_on_cpu
        return OutOfMemory(error, summary, on_cpu)
    return OutOfMemory(error, summary, False)


def attempt(work: Callable[[], Any]) -> tuple[Any, OutOfMemory | None]:
    """What the work gives, or the out-of-memory that it ended in; other exceptions are raised.

    The failure is handed back, so that nothing is done inside the ``except``: there the
    traceback keeps alive the tensors whose memory is needed.
    """
    try:
        return work(), None
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        return None, failure


def gave_away(error: BaseException) -> bool:
    """Whether JAX misses an argument that an earlier call was given for good (donated)."""
    return any(words in str(error) for words in _DONATED)


def explain_beside(error: BaseException, why: str) -> None:
    """Say on stderr why the exception that will be raised ends it, with its diagnosis."""
    with suppress(AttributeError):
        setattr(error, _EXPLAINED, True)
    say(why)
    diagnosis = explain(error)
    proposals = tuple(each for each in diagnosis.proposals if not _is_tried(each))
    explanation = str(diagnosis._replace(proposals=proposals))
    for line in explanation.splitlines():
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
        if failure is not None and not getattr(error, _EXPLAINED, False):
            where = "the card's memory" if failure.is_of_the_card else "the host's RAM"
            explain_beside(
                error, f"{what}: no room in {where}, and a smaller batch does not help there"
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


def _may_be_of_memory(error: BaseException) -> bool:
    """Whether it is of a framework, or a MemoryError; a ValueError that quotes a log is not."""
    if type(error).__name__ == _SAYS_TOO_LITTLE and read(str(error)).cause == NOT_GPU:
        return False
    if isinstance(error, (MemoryError, RuntimeError)):
        return True
    tensorflow = sys.modules.get("tensorflow")
    errors = getattr(tensorflow, "errors", None)
    return errors is not None and isinstance(error, errors.OpError)


def _is_refusal(error: BaseException) -> bool:
    """Whether class or status alone say that JAX or PyTorch, whose class has two homes, refused."""
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
