"""What TensorFlow may take of a card: by itself, and under each shipped profile."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.errors import GpuconfError
from gpuconf.hardware import Gpu, Inventory
from gpuconf.hardware.reserve import reserve_bytes as reserve_of
from gpuconf.planner import make_plan
from gpuconf.profile import list_profiles, load_profile
from gpuconf.simcard import CardSpec


class Allowance(NamedTuple):
    """What TensorFlow could take under a profile, beside the CUDA context."""

    profile: str
    limit_bytes: int


def free_bytes(spec: CardSpec) -> int:
    """What is left for TensorFlow beside the others and its context."""
    return spec.total_bytes - spec.used_bytes - spec.context_bytes


def reserve_bytes(spec: CardSpec) -> int:
    """What TensorFlow leaves untouched where nobody sets a limit."""
    major = int(spec.compute_capability.partition(".")[0])
    return reserve_of(free_bytes(spec), major)


def allowances(spec: CardSpec) -> tuple[Allowance, ...]:
    """The shipped profiles that limit TensorFlow on such a card, the most generous first.

    Left out are those that refuse the card, hide it, or cut it into logical devices.
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
