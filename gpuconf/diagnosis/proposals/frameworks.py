"""JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.diagnosis.diagnosis import Proposal
from gpuconf.diagnosis.proposals.batches import fitting_batch, is_of_a_batch
from gpuconf.diagnosis.proposals.wording import HALF_THE_BATCH, SEE_OTHERS, little_is_free
from gpuconf.messages.facts.tensor import logged_size
from gpuconf.messages.reading import LogFacts
from gpuconf.units import sized

# More than this share of what a process holds, unused, is fragmented.
_MUCH_UNUSED = 0.2


def for_jax(facts: LogFacts) -> Iterator[Proposal]:
    """Less at once; no memory taken in advance where others need some."""
    if little_is_free(facts):
        yield SEE_OTHERS
    yield from _batch(facts)
    if facts.request.size_bytes is not None:
        size = sized(facts.request.size_bytes)
        yield Proposal(
            "see what in the program needs it",
            f"{size} were asked for at once; a smaller batch or shorter input, or "
            "jax.checkpoint on the layers, makes it less",
            "code",
            "print(jax.jit(step).lower(*arguments).compile().memory_analysis())",
        )
    yield Proposal(
        "take memory as it is needed",
        "JAX takes three quarters of a card at the start, whoever else is on it",
        "command",
        "export XLA_PYTHON_CLIENT_PREALLOCATE=false",
    )
    if not little_is_free(facts):
        yield SEE_OTHERS


def for_torch(facts: LogFacts) -> Iterator[Proposal]:
    """A smaller batch; pieces only where the message shows that much lies unused."""
    yield from _batch(facts)
    unused = _unused_share(facts)
    if unused is not None and unused > _MUCH_UNUSED:
        yield Proposal(
            "let the allocator grow its segments",
            f"{unused:.0%} of what PyTorch holds is unused and fragmented",
            "command",
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        )
    yield Proposal(
        "accumulate gradients over smaller batches",
        "the same step with a fraction of the activations",
        "code",
        "(loss / parts).backward()          # for each of the parts of a batch\n"
        "optimizer.step(); optimizer.zero_grad()   # after all of them",
    )
    if _others_hold_some(facts):
        yield SEE_OTHERS


def _batch(facts: LogFacts) -> Iterator[Proposal]:
    fit = fitting_batch(facts)
    if fit is not None:
        yield Proposal(
            f"a batch of {fit.fits} instead of {fit.batch}", fit.because, "batch",
            f"batch_size = {fit.fits}",
        )  # fmt: skip
    elif facts.batch_size != 1 and is_of_a_batch(facts):
        yield HALF_THE_BATCH


def _others_hold_some(facts: LogFacts) -> bool:
    """Whether more of the card is taken than PyTorch's own process holds; unknown is no."""
    card, reserved = facts.card, _size(facts, "torch_reserved")
    if card is None or card.total_bytes is None or card.free_bytes is None:
        return False
    own = reserved if reserved is not None else sum(each.size_bytes for each in card.holders[:1])
    return bool(own) and card.total_bytes - card.free_bytes - own > 0.15 * card.total_bytes


def _unused_share(facts: LogFacts) -> float | None:
    """The share of PyTorch's own memory that no tensor holds, from newer and older messages."""
    held, unused = _size(facts, "torch_allocated"), _size(facts, "torch_unallocated")
    reserved = _size(facts, "torch_reserved")
    if unused is None and held is not None and reserved is not None:
        unused = reserved - held
    if not held or unused is None:
        return None
    return unused / (held + unused)


def _size(facts: LogFacts, name: str) -> int | None:
    return logged_size(str(facts.details.get(name, "")))
