"""The GPU to rehearse for, and TensorFlow's limit on it, without and with profiles."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes
from gpuconf.basics.units import GIB, sized
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.machine.cards import Gpu, Inventory, read_inventory
from gpuconf.machine.cards.system_memory import system_memory_bytes
from gpuconf.machine.host_memory import available_bytes
from gpuconf.planner.planning import make_plan
from gpuconf.profile import list_profiles, load_profile
from gpuconf.simcard import CardSpec

_DEFAULT_CARD_BYTES = 8 * GIB


def target_card(
    total_bytes: int | None, used_bytes: int | None, context_bytes: int, *, count: int
) -> CardSpec:
    """The requested GPU; without a size, a copy of this machine's first GPU, or else 8 GiB.

    Raises UsageError if no memory is left for TensorFlow.
    """
    spec = CardSpec(total_bytes=_DEFAULT_CARD_BYTES, context_bytes=context_bytes, count=count)
    if total_bytes is None:
        gpus = read_inventory().gpus
        if gpus:
            spec = _like(gpus[0], spec)
    else:
        spec = spec._replace(total_bytes=total_bytes)
    if used_bytes is not None:
        spec = spec._replace(used_bytes=used_bytes)
    if spec.used_bytes + spec.context_bytes >= spec.total_bytes:
        raise UsageError(
            f"nothing is left on the GPU: of {sized(spec.total_bytes)}, {sized(spec.used_bytes)} "
            f"is in use and {sized(spec.context_bytes)} goes to the CUDA context",
            hint="use a larger --card, or a smaller --used or --context",
        )
    return spec


def _like(gpu: Gpu, spec: CardSpec) -> CardSpec:
    """``spec`` with the data of a real GPU; the capability determines TensorFlow's reserve."""
    if gpu.total_bytes is None:
        return spec
    spec = spec._replace(total_bytes=gpu.total_bytes, used_bytes=gpu.used_bytes or 0)
    if gpu.compute_capability is None:
        return spec
    major, minor = gpu.compute_capability
    return spec._replace(compute_capability=f"{major}.{minor}")


def host_shortage(spec: CardSpec) -> str | None:
    """A warning if this machine has less memory than the GPU whose memory it replaces."""
    free = spec.count * (spec.total_bytes - spec.used_bytes)
    available = available_bytes()
    if available is None or available >= free:
        return None
    return (
        f"the GPU has {sized(free)} free, but this machine has only {sized(available)}: a script "
        "that uses more than that is killed, without a verdict"
    )


class Allowance(NamedTuple):
    """TensorFlow's limit under a profile, in addition to the CUDA context."""

    profile: str
    """The profile's name."""
    limit_bytes: Bytes
    """The limit."""


def free_bytes(spec: CardSpec) -> int:
    """The memory left for TensorFlow after other programs and its context."""
    return spec.total_bytes - spec.used_bytes - spec.context_bytes


def reserve_bytes(spec: CardSpec) -> int:
    """The memory that TensorFlow leaves untouched if no limit is set."""
    major = int(spec.compute_capability.partition(".")[0])
    return system_memory_bytes(free_bytes(spec), major)


def allowances(spec: CardSpec) -> tuple[Allowance, ...]:
    """The shipped profiles that limit TensorFlow on such a GPU, highest limit first.

    Profiles that refuse the GPU, hide it, or split it into logical devices are left out.
    """
    entries = [entry.name for entry in list_profiles() if entry.origin == "shipped"]
    found = [Allowance(name, size) for name in entries if (size := _allowance(name, spec))]
    return tuple(sorted(found, key=lambda each: -each.limit_bytes))


def _allowance(name: str, spec: CardSpec) -> int | None:
    try:
        plan = make_plan(load_profile(name), Inventory(_gpus(spec)), environ={})
    except GpuconfError:
        return None
    if not plan.gpus or plan.gpus[0].logical_devices_bytes:
        return None
    limit = plan.gpus[0].limit_bytes
    return None if limit is None else min(limit, free_bytes(spec))


def _gpus(spec: CardSpec) -> tuple[Gpu, ...]:
    major, minor = map(int, spec.compute_capability.split("."))
    gpu = Gpu(
        0,
        total_bytes=spec.total_bytes,
        free_bytes=spec.total_bytes - spec.used_bytes,
        used_bytes=spec.used_bytes,
        compute_capability=(major, minor),
    )
    return tuple(gpu._replace(index=index, uuid=f"GPU-{index}") for index in range(spec.count))
