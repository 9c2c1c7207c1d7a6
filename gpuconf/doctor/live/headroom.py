"""Whether a card has room for the profile's limit and for what comes on top of it.  Pure.

This is how CUDNN_STATUS_ALLOC_FAILED begins: TensorFlow grows to its limit, and the next handle or
workspace that cuDNN asks the driver for is refused, hours into a training.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.doctor.finding import Finding
from gpuconf.doctor.live import fixes
from gpuconf.doctor.live.record import LiveRecord
from gpuconf.doctor.measured import CardMemory, ProbedCard
from gpuconf.units import MIB, sized

# For cuDNN's and cuBLAS's handles, where growth hides them; a judgement, not a measurement.
_LEAST_SPARE = 128 * MIB


class Headroom(NamedTuple):
    """What a process needs beside its limit, and what the card has left for it.

    ``overhead_bytes``: the CUDA context, and with a limit that was taken at once the handles too.
    ``spare_bytes`` remains when the process has all of its limit; below 0 it never gets there.
    """

    overhead_bytes: int
    spare_bytes: int


def headroom_on(card: ProbedCard, record: LiveRecord) -> Headroom | None:
    """The headroom on a card that passed all its steps; None where figures are missing."""
    overhead = _overhead_bytes(card, record)
    if overhead is None or card.limit_bytes is None or card.free_bytes is None:
        return None
    return Headroom(overhead, card.free_bytes - card.limit_bytes - overhead)


def finding_for(card: ProbedCard, record: LiveRecord) -> Finding | None:
    """What the headroom comes to; None where it cannot be known."""
    room = headroom_on(card, record)
    if room is None or card.limit_bytes is None:
        return None
    taken = f"{sized(room.overhead_bytes)} beside its limit of {sized(card.limit_bytes)}"
    if room.spare_bytes >= _LEAST_SPARE:
        summary = f"{card.label}: a process takes {taken}, and {sized(room.spare_bytes)} are left"
        return Finding("live.headroom", "ok", summary)
    left = sized(max(0, room.spare_bytes))
    return Finding(
        "live.headroom",
        "warn",
        f"{card.label}: a process takes {taken}, which leaves {left} for cuDNN",
        (
            *fixes.memory_lines(card),
            "a training that grows to its limit fails with CUDNN_STATUS_ALLOC_FAILED or "
            "CUDA_ERROR_OUT_OF_MEMORY",
        ),
        fixes.keep_more_free(record, room.overhead_bytes + 512 * MIB),
    )


def _overhead_bytes(card: ProbedCard, record: LiveRecord) -> int | None:
    """What the process holds beyond the allocator's own.

    With growth, as soon as the context is there, before the first tensor.  Without, in the end,
    when the allocator has the whole limit.
    """
    place = card.place
    of_card = [step for step in record.steps if place in step.cards and step.has_passed]
    context = next((step for step in of_card if step.step == "context"), None)
    if context is None:
        return None
    step = context if card.allow_growth is not False else of_card[-1]
    held = _held_bytes(card, step.after, step.cards.index(place))
    if held is None or card.limit_bytes is None:
        return None
    return held - card.limit_bytes if held >= card.limit_bytes else held


def _held_bytes(card: ProbedCard, after: tuple[CardMemory, ...], number: int) -> int | None:
    """What the process holds on the card: NVML's figure for it, or what the card has lost."""
    memory = after[number] if number < len(after) else CardMemory()
    if memory.own_bytes is not None:
        return memory.own_bytes
    if memory.free_bytes is None or card.free_bytes is None:
        return None
    return max(0, card.free_bytes - memory.free_bytes)
