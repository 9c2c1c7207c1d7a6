"""The step's memory as ``base + per_sample * batch``, from two batch sizes."""

from __future__ import annotations

from gpuconf.commands.estimate.memory_estimate import Phase
from gpuconf.commands.estimate.step import Step


def phases_of(one: Step, other: Step) -> tuple[Phase, ...]:
    """Return the formula for the bytes requested at the peak, without the resident ones."""
    small, large = most_live_bytes(one), most_live_bytes(other)
    per_sample = max(0.0, (large - small) / (other.batch_size - one.batch_size))
    at = one.operations[one.memory.peak]
    base = round(small - per_sample * one.batch_size)
    first_batch = min(one.batch_size, other.batch_size)
    return (Phase(base, per_sample, first_batch, at.name, at.layer, at.part),)


def most_live_bytes(step: Step) -> int:
    """Return the largest number of requested bytes that are live at once, without variables."""
    change = [0] * (len(step.operations) + 1)
    for piece in step.pieces:
        change[piece.first] += piece.size_bytes
        change[piece.last + 1] -= piece.size_bytes
    most = live = 0
    for each in change:
        live += each
        most = max(most, live)
    return most
