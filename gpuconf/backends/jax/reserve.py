"""JAX allocates the plan's reserve, and keeps it for as long as its client exists."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from gpuconf.backends import reserve
from gpuconf.backends.interface import PlanSource
from gpuconf.planner import GpuPlan


def take_reserve(
    client: Any, gpus: Sequence[GpuPlan], source: PlanSource, why_not: str | None
) -> None:
    """Allocate the reserve on each GPU of the new ``client``, on which JAX can already compute.

    ``why_not`` is the reason if the client's allocator has no pool.
    """
    jax: Any = sys.modules["jax"]
    if why_not is None and not hasattr(jax, "ffi"):
        why_not = "allocating it requires jax.ffi, which JAX added in 0.5"

    def allocate(size_bytes: int) -> None:
        # XLA allocates the result and runs no kernel.
        shape = jax.ShapeDtypeStruct((size_bytes,), "uint8")
        with jax.ensure_compile_time_eval(), jax.default_device(device):
            jax.ffi.ffi_call("AllocateBuffer", shape)()

    for device in client.local_devices():
        number = getattr(device, "local_hardware_id", device.id)
        if number is None or number >= len(gpus):
            continue
        if not source.claim_reserve(gpus[number], "jax", again=True):
            continue
        size = gpus[number].preallocated_bytes
        if why_not is None:
            # A smaller fraction may be the program's: XLA would wait 10 s for memory above it.
            limit_bytes = (device.memory_stats() or {}).get("bytes_limit", 2 * size)
            size = min(size, limit_bytes - reserve.FIRST_REGION_BYTES)
        sizes = reserve.region_sizes(size)
        reserve.take(f"jax cuda:{number}", sizes, allocate, source.record, why_not=why_not)
