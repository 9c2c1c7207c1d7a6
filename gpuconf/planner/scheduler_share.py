"""A scheduler's share as a limit: the assigned fraction of what all its programs may use.

    share × (total - held by others - keep_free) - context

"Others" are programs that the scheduler did not start: the display, a notebook, its own driver. All
shares of a GPU, each with a CUDA context, therefore fit alongside the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuconf.basics.units import MIB, sized
from gpuconf.machine.cards.inventory import SCHEDULERS, Gpu
from gpuconf.planner.context import context_bytes, keep_free_bytes
from gpuconf.planner.plan import GpuPlan, label
from gpuconf.profile.model import GpuRules

_STEPS = 10_000  # Ray's smallest part of a resource is one of so many
# The scheduler's name in a GpuShare -> how to ask it for {part} of a GPU.
_ASKING = {each.name: each.asking for each in SCHEDULERS.values()}


def share_term(gpu: Gpu, rules: GpuRules) -> tuple[int | None, str | None]:
    """Return the bytes in the share of ``gpu`` and a line explaining them; None if it has no share.

    If figures are unknown, only the line is returned.
    """
    share = gpu.share
    if share is None:
        return None, None
    name = f"{share.scheduler}'s share {share.part:.4g}"
    keep, context = keep_free_bytes(gpu, rules.memory), context_bytes(gpu, rules.memory)
    if gpu.total_bytes is None or share.outside_bytes is None or keep is None or context is None:
        return None, f"{name}: dropped, because the GPU's memory is unknown"
    of_all = int(share.part * (gpu.total_bytes - share.outside_bytes - keep))
    term = of_all // rules.processes - context
    parts = [f"{sized(gpu.total_bytes, cut=True)} total"]
    off = ((share.outside_bytes, "used by others"), (keep, "keep_free"))
    parts += [f"- {sized(size, cut=True)} {what}" for size, what in off if size]
    whole = f"({' '.join(parts)})" if len(parts) > 1 else parts[0]
    each = f" / {rules.processes} processes" if rules.processes > 1 else ""
    left = f"{sized(context, cut=True)} context = {sized(term, cut=True)}"
    return term, f"{name} × {whole}{each} - {left}"


def larger_share(gpu: Gpu, rules: GpuRules) -> str | None:
    """Return a hint if the share of ``gpu`` leaves less than 1 MiB after a CUDA context.

    None if it leaves more, or if even the whole GPU would not.
    """
    share, (term, _) = gpu.share, share_term(gpu, rules)
    if share is None or term is None or term >= MIB:
        return None
    keep, context = keep_free_bytes(gpu, rules.memory), context_bytes(gpu, rules.memory)
    together = (gpu.total_bytes or 0) - (share.outside_bytes or 0) - (keep or 0)
    needed = ((context or 0) + MIB) * rules.processes
    if needed > together:
        return None
    part = f"{math.ceil(100 * needed / together) / 100:g}"
    return (
        f"{share.scheduler}'s share is smaller than a CUDA context; request at least "
        f"{_ASKING[share.scheduler].format(part=part)}"
    )


def part_for(size_bytes: int, gpu: Gpu, rules: GpuRules) -> float | None:
    """Return the smallest part of ``gpu`` for which :func:`share_term` is at least ``size_bytes``.

    Rounded up to 0.0001, as Ray counts; more than 1 if the GPU is too small.  ``gpu`` has any
    share.  None if its figures are unknown.
    """
    outside = None if gpu.share is None else gpu.share.outside_bytes
    keep, context = keep_free_bytes(gpu, rules.memory), context_bytes(gpu, rules.memory)
    if gpu.total_bytes is None or outside is None or keep is None or context is None:
        return None
    together, needed = gpu.total_bytes - outside - keep, size_bytes + context
    if together <= 0:
        return math.inf
    steps = -(-needed * _STEPS // together)
    while int(steps / _STEPS * together) < needed:  # the product of floats may be a byte less
        steps += 1
    return steps / _STEPS


def share_notes(planned: Sequence[GpuPlan]) -> list[str]:
    """Return the limit of each shared GPU and the line that explains it, for a worker's log."""
    notes = []
    for plan in planned:
        if plan.gpu.share is None or plan.limit_bytes is None:
            continue
        name = f"{plan.gpu.share.scheduler}'s share"
        line = next((each for each in plan.arithmetic if each.startswith(name)), name)
        notes.append(f"limit {sized(plan.limit_bytes, cut=True)} on {label(plan.gpu)}: {line}")
    return notes
