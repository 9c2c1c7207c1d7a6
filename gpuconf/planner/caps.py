"""The limits of the kernel and of an administrator on a GPU's memory, as terms of the minimum.

``gpuconf.machine.cards.dmem`` and ``gpuconf.machine.policy`` read them.  Such a limit includes
the process's CUDA context, so a term is the limit minus the context.
"""

from __future__ import annotations

from gpuconf.basics.units import sized
from gpuconf.machine.cards.inventory import Cap, Gpu
from gpuconf.planner.context import context_bytes
from gpuconf.profile.model import GpuRules


def cap_terms(gpu: Gpu, rules: GpuRules) -> list[tuple[int, str]]:
    """Return what each cap leaves after this process's context, with a line that explains it."""
    context = context_bytes(gpu, rules.memory)
    if context is None:
        return []
    return [_term(cap, gpu.own_bytes, context, rules.processes) for cap in gpu.caps]


def _term(cap: Cap, own_bytes: int, context: int, processes: int) -> tuple[int, str]:
    others = max(cap.used_bytes - own_bytes, 0)
    left = cap.limit_bytes - others
    shown = f"{cap.name}: {sized(cap.limit_bytes, cut=True)}"
    used = "that your other programs may use" if cap.is_policy else "in use"
    if others:
        shown += f" - {sized(others, cut=True)} {used}"
    if processes > 1:
        left //= processes
        shown += f", / {processes} processes"
    term = left - context
    result = f" = {sized(term, cut=True)}" if term >= 0 else f": {sized(-term, cut=True)} short"
    return term, f"{shown} - {sized(context, cut=True)} context{result}"
