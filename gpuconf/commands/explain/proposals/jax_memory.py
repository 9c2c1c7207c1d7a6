"""JAX's memory: the needs of the compiled program, or a card that was already full.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.batches import fitting_batch
from gpuconf.commands.explain.proposals.wording import HALF_THE_BATCH, SEE_OTHERS, little_is_free
from gpuconf.support.failures.facts.tensor import logged_size
from gpuconf.support.failures.reading import LogFacts

# Every card has this much, unless something else fills it.
_LITTLE = 128 * MIB
_ONLY_OURS = Proposal(
    "keep other frameworks of the same process off the card",
    "TensorFlow, which many programs of JAX read data with, takes nearly all of it at the first "
    "tensor",
    "code",
    "import tensorflow as tf\ntf.config.set_visible_devices([], 'GPU')",
)
_AS_NEEDED = Proposal(
    "take memory as it is needed",
    "JAX takes three quarters of a card at the start, whoever else is on it",
    "command",
    "export XLA_PYTHON_CLIENT_PREALLOCATE=false",
)
_HIGHER_SHARE = Proposal(
    "raise JAX's share of the card, which the log shows as set",
    "JAX refuses what is beyond it, though more of the card may be free",
    "command",
    "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.95",
)
_RECOMPUTE = Proposal(
    "compute activations again in the backward pass",
    "jax.checkpoint keeps a layer's input alone; it costs about a third more time",
    "code",
    "layer = jax.checkpoint(layer)",
)


def for_jax(facts: LogFacts) -> Iterator[Proposal]:
    """Other processes first if the request was small, otherwise compute less at once."""
    # If CUDA refused, the request was JAX's preallocation, its share of the card.
    by_cuda = facts.details.get("status") == "CUDA_ERROR_OUT_OF_MEMORY"
    if little_is_free(facts) or _little_was_asked(facts) or by_cuda:
        yield _full_before(facts)
        yield _ONLY_OURS
        if "preallocation-off" not in facts.signs:
            yield _AS_NEEDED
        return
    if "limit-set" in facts.signs:
        yield _HIGHER_SHARE
    yield from _batch(facts)
    if facts.request.size_bytes is not None:
        yield Proposal(
            "see what in the program needs it",
            f"{_needs(facts)}; a smaller batch or shorter input makes it less",
            "code",
            "print(jax.jit(step).lower(*arguments).compile().memory_analysis())",
        )
        yield _RECOMPUTE
    elif "preallocation-off" not in facts.signs:
        yield _AS_NEEDED
    yield SEE_OTHERS


def _batch(facts: LogFacts) -> Iterator[Proposal]:
    fit = fitting_batch(facts)
    if fit is not None:
        yield Proposal(
            f"a batch of {fit.fits} instead of {fit.batch}", fit.because, "batch",
            f"batch_size = {fit.fits}",
        )  # fmt: skip
    elif facts.batch_size != 1:
        yield HALF_THE_BATCH._replace(
            title="half the batch, or a shorter input",
            reason=f"{_needs(facts)}; most of it grows with the batch and the input",
        )


def _needs(facts: LogFacts) -> str:
    total = logged_size(str(facts.details.get("program_total", "")))
    asked = facts.request.size_bytes
    if total is not None:
        return f"the compiled program needs {sized(total)} in all"
    return "what it needed is not known" if asked is None else f"{sized(asked)} were asked for"


def _little_was_asked(facts: LogFacts) -> bool:
    """Whether request and program are so small that the card must have been full already."""
    asked = facts.request.size_bytes
    total = logged_size(str(facts.details.get("program_total", "")))
    return asked is not None and max(asked, total or 0) < _LITTLE


def _full_before(facts: LogFacts) -> Proposal:
    asked = facts.request.size_bytes
    if asked is None or not _little_was_asked(facts):
        return SEE_OTHERS
    return SEE_OTHERS._replace(
        reason=f"only {sized(asked)} were asked for, so the card, or JAX's share of it, was full "
        "before: of another process, another framework in this one, or arrays that are kept"
    )
