"""The figures in PyTorch's out-of-memory message, and what they mean together.  Pure."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.support.failures.facts.tensor import logged_size
from gpuconf.support.failures.reading import LogFacts

# If more than this share of a process's memory is unused, it is fragmented.
MUCH_UNUSED = 0.2
# The memory of CUDA's context and libraries, which PyTorch does not count as reserved.
_CONTEXT = 600 * MIB
# If other processes hold more of the GPU than this, they come before a smaller batch.
_MUCH_OF_OTHERS = 0.2
# A process this close to PyTorch's own size is this one, under its PID outside the container.
_SAME = 1024 * MIB
# A program with more than this share of the GPU has filled it.
_FILLED = 0.75
# With less than this share of the GPU free, it is full.
_NEARLY_NONE = 0.02
# With less of the GPU free, others must go; with more, a smaller share does.
_ROOM_FOR_A_SERVER = 0.4


class TorchFigures(NamedTuple):
    """The figures in PyTorch's message, in bytes; None if it does not state them."""

    asked: int | None
    total: int | None
    free: int | None
    unused: int | None
    held: int | None
    others: int | None


def figures_of(facts: LogFacts) -> TorchFigures:
    """The figures in a log."""
    card, request = facts.card, facts.request
    total = card.total_bytes if card is not None else None
    free = card.free_bytes if card is not None else None
    allocated, unused = _size(facts, "torch_allocated"), _size(facts, "torch_unallocated")
    held, cached = _size(facts, "torch_reserved"), _size(facts, "torch_cached")
    if allocated is not None and held is None:
        held = allocated + (unused or cached or 0)
    if allocated is not None and held is not None:
        unused = held - allocated if unused is None else unused
    return TorchFigures(request.size_bytes, total, free, unused, held, _others(facts, held))


def _others(facts: LogFacts, held: int | None) -> int | None:
    """The GPU's memory that is neither free nor held by this process."""
    card, process = facts.card, _size(facts, "torch_process")
    if card is None or card.total_bytes is None or card.free_bytes is None:
        return None
    own = process
    if own is None and held is not None:
        own = held + _CONTEXT
        same = [each.size_bytes for each in card.holders if abs(each.size_bytes - held) <= _SAME]
        own = max([own, *same])
    if own is None:
        own = card.holders[0].size_bytes if len(card.holders) == 1 else None
    return None if own is None else max(card.total_bytes - card.free_bytes - own, 0)


def others_are_in_the_way(figures: TorchFigures) -> bool:
    """Whether other processes hold much of the GPU, and the request would fit without them."""
    others, total = figures.others, figures.total
    if others is None or total is None or others <= _MUCH_OF_OTHERS * total:
        return False
    return figures.asked is None or others + (figures.free or 0) >= figures.asked


def was_free(figures: TorchFigures) -> bool:
    """Whether the requested memory was free, on a GPU that this program had not filled."""
    asked, free, total = figures.asked, figures.free, figures.total
    if asked is None or free is None or free < asked:
        return False
    if total is None or figures.others is None:
        return True
    return total - free - figures.others < _FILLED * total


def is_beyond_the_card(figures: TorchFigures) -> bool:
    """Whether PyTorch holds more than the entire GPU has: on Windows the rest is host memory.

    If memory is free, the figures come from two GPUs.
    """
    total = figures.total
    if total is None or (figures.free or 0) > _NEARLY_NONE * total:
        return False
    return (figures.held or 0) > total


def is_fragmented(figures: TorchFigures) -> bool:
    """Whether the unused memory would have been enough, and exceeds what other processes hold."""
    asked, unused, held = figures.asked, figures.unused, figures.held
    if asked is None or unused is None or not held:
        return False
    enough = unused + (figures.free or 0) >= asked > (figures.free or 0)
    return enough and unused > MUCH_UNUSED * held and unused > (figures.others or 0)


def _size(facts: LogFacts, name: str) -> int | None:
    return logged_size(str(facts.details.get(name, "")))


def server_share(facts: LogFacts) -> float | None:
    """The share of the GPU that was free when vLLM started; None if the log does not say.

    vLLM rounds both figures to 0.01 GiB, so this is the smallest share that they can mean.
    """
    stated = str(facts.details.get("server_share", ""))
    free, _, total = stated.partition("/")
    return (float(free) - 0.005) / (float(total) + 0.005) if total else None


def server_has_room(facts: LogFacts) -> bool:
    """Whether a smaller share of the GPU would be enough for vLLM: most of it was free."""
    return (server_share(facts) or 0) > _ROOM_FOR_A_SERVER
