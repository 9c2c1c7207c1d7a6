"""JAX takes the plan's reserve, and never returns it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from gpuconf.backends import reserve
from gpuconf.basics.setting import Setting
from gpuconf.planner import GpuPlan


def take_reserve(client: Any, gpus: Sequence[GpuPlan], record: Callable[[Setting], None]) -> None:
    """Take the reserve of each GPU of ``client``, in which JAX can already compute."""
    jax: Any = sys.modules["jax"]

    def allocate(size_bytes: int) -> None:
        # XLA allocates the result and runs no kernel.  jax.ffi came with JAX 0.5.
        shape = jax.ShapeDtypeStruct((size_bytes,), "uint8")
        with jax.ensure_compile_time_eval(), jax.default_device(device):
            jax.ffi.ffi_call("AllocateBuffer", shape)()

    for device in client.local_devices():
        number = getattr(device, "local_hardware_id", device.id)
        size = gpus[number].hold_bytes if number < len(gpus) else 0
        reserve.take(f"jax cuda:{number}", reserve.region_sizes(size), allocate, record)
