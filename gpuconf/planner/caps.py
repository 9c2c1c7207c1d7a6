"""Limits set by others, as terms of the minimum; and the limit that MPS enforces.

The kernel's limits come with the GPU (``gpuconf.hardware.dmem``).  Those of MPS and HAMi are
environment variables, which number the GPUs that the process sees:

- ``CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=512M``, for each process (docs.nvidia.com/deploy/mps);
- ``CUDA_DEVICE_MEMORY_LIMIT_0=3000m``, else ``CUDA_DEVICE_MEMORY_LIMIT`` for all GPUs, for all
  processes in the container; k, m and g are powers of 1024 (get_limit_from_env in HAMi-core).

All of them include the process's CUDA context, so a term is the limit minus the context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuconf.hardware import mps
from gpuconf.hardware.inventory import Cap, Gpu
from gpuconf.patterns import Pattern
from gpuconf.planner.context import context_bytes
from gpuconf.planner.plan import GpuPlan
from gpuconf.profile.model import GpuRules, Profile
from gpuconf.units import GIB, KIB, MIB, sized

HAMI_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
_SIZE = Pattern(r"\s*([0-9]{1,18})\s*([kmg]?)b?\s*", ignore_case=True)
_UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB}
_BY_MPS = ("auto", "mps")


def enforcements(profile: Profile) -> set[str | None]:
    """Return every ``memory.enforce`` in ``profile``, for all GPUs and for single ones."""
    return {profile.memory.enforce, *(rules.memory.enforce for _, rules in profile.per_gpu)}


def asks_for_mps(profile: Profile) -> bool:
    """Whether a plan for ``profile`` needs to know if MPS is running."""
    return not enforcements(profile).isdisjoint(_BY_MPS)


def with_caps(gpu: Gpu, position: int, environ: Mapping[str, str]) -> Gpu:
    """Add the caps in ``environ`` to ``gpu``, the GPU at ``position`` among those visible."""
    return gpu._replace(caps=(*gpu.caps, *_in_environment(gpu, position, environ)))


def _in_environment(gpu: Gpu, position: int, environ: Mapping[str, str]) -> Iterator[Cap]:
    for entry in environ.get(mps.LIMIT, "").split(","):
        device, _, size = entry.partition("=")
        limit = _size(size)
        if limit and _names(device.strip(), gpu, position):
            yield Cap(f"{mps.LIMIT}={entry.strip()}", limit, is_of_process=True)
    for name in (f"{HAMI_LIMIT}_{position}", HAMI_LIMIT):
        limit = _size(environ.get(name, ""))
        if limit:
            yield Cap(f"{name}={environ[name]}", limit)
            return


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2].lower()] if match else None


def _names(device: str, gpu: Gpu, position: int) -> bool:
    if device.isdecimal():
        return device.lstrip("0") == str(position).lstrip("0")
    return device.startswith("GPU-") and (gpu.uuid or "").startswith(device)


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
    if others:
        shown += f" - {sized(others, cut=True)} in use"
    if processes > 1 and not cap.is_of_process:
        left //= processes
        shown += f", / {processes} processes"
    term = left - context
    return term, f"{shown} - {sized(context, cut=True)} context = {sized(term, cut=True)}"


def with_mps_limit(plan: GpuPlan, rules: GpuRules) -> GpuPlan:
    """Add the limit that MPS enforces to ``plan`` if ``memory.enforce`` asks for it."""
    context = context_bytes(plan.gpu, rules.memory)
    if rules.memory.enforce not in _BY_MPS or plan.limit_bytes is None or context is None:
        return plan
    limit = plan.limit_bytes + context
    line = (
        f"MPS enforces {sized(plan.limit_bytes, cut=True)} limit + {sized(context, cut=True)} "
        f"context = {sized(limit, cut=True)}"
    )
    return plan._replace(mps_limit_bytes=limit, arithmetic=(*plan.arithmetic, line))
