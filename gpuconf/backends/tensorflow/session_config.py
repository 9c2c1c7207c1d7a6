"""Limit a ConfigProto to the plan; pure: returns a copy and a list of the changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuconf.backends.tensorflow.devices import logical_limits_mib
from gpuconf.backends.tensorflow.readback import visible_indices
from gpuconf.basics.units import MIB, sized
from gpuconf.injected.sizes import listed, scaled_to, share_of
from gpuconf.planner import GpuPlan, Plan


class LimitedSetting(NamedTuple):
    """What a script requested and what it got, in a few words; ``why`` is the profile's reason."""

    asked: str
    got: str
    why: str = "allows no more"


def limit_to_plan(
    config: Any, plan: Plan, physical: Sequence[GpuPlan | None] = ()
) -> tuple[Any, list[LimitedSetting]]:
    """Return a copy of the ConfigProto ``config`` that gives no GPU more than the plan allows.

    ``physical`` holds the plan for each of TensorFlow's GPUs, by default the GPUs of ``plan``. The
    plan is a cap: smaller values set by the script are kept. The second value lists what the script
    requested but did not get.
    """
    held = type(config)()
    held.CopyFrom(config)
    if plan.hides_gpus:
        held.device_count["GPU"] = 0
        return held, []
    options = held.gpu_options
    if plan.allow_growth is not None:
        options.allow_growth = plan.allow_growth
    _leave_out_hidden(options, physical)
    gpus = _gpus_in_use(options, plan, physical)
    if not any(logical_limits_mib(gpu) or gpu.unsized_fraction for gpu in gpus):
        return held, []
    if options.experimental.virtual_devices:
        return held, _hold_virtual_devices(options, gpus)
    share = _common_share(gpus)
    if share is not None:
        return held, _hold_fraction(options, share, gpus[0])
    _give_virtual_devices(options, gpus)
    return held, []


def _leave_out_hidden(options: Any, physical: Sequence[GpuPlan | None]) -> None:
    """Name planned GPUs if TensorFlow also lists others; a session obeys only its own options."""
    if None not in physical or options.experimental.virtual_devices:
        return
    used = [i for i in visible_indices(options, len(physical)) if physical[i] is not None]
    options.visible_device_list = ",".join(map(str, used))


def _gpus_in_use(options: Any, plan: Plan, physical: Sequence[GpuPlan | None]) -> list[GpuPlan]:
    """Return the plans of the GPUs that ``options`` uses; the plan does not limit hidden ones."""
    if not plan.gpus:
        return [plan.unknown_gpu] if plan.unknown_gpu else []
    known = list(physical or plan.gpus)
    used = [known[index] for index in visible_indices(options, len(known))]
    return [gpu for gpu in used if gpu is not None]


def _common_share(gpus: Sequence[GpuPlan]) -> float | None:
    """Return the ``per_process_gpu_memory_fraction`` that fits every GPU's limit; None if none
    does.
    """
    sizeless = [gpu for gpu in gpus if not (gpu.gpu.total_bytes or gpu.unsized_fraction)]
    if sizeless or any(gpu.logical_devices_bytes for gpu in gpus):
        return None
    shares = {share_of(gpu.limit_bytes, gpu.gpu.total_bytes, gpu.fraction) for gpu in gpus}
    return shares.pop() if len(shares) == 1 else None


def _hold_fraction(options: Any, share: float, gpu: GpuPlan) -> list[LimitedSetting]:
    asked = options.per_process_gpu_memory_fraction
    if 0 < asked <= share:
        return []
    options.per_process_gpu_memory_fraction = share
    if not asked:
        return []
    total = gpu.gpu.total_bytes or 0
    return [
        LimitedSetting(
            f"per_process_gpu_memory_fraction {asked:g} ({sized(int(asked * total), cut=True)})",
            f"{share:.4g} ({sized(gpu.limit_bytes or 0, cut=True)})",
        )
    ]


def _hold_virtual_devices(options: Any, gpus: Sequence[GpuPlan]) -> list[LimitedSetting]:
    """On each GPU, scale down the virtual devices if their sum exceeds the GPU's limit."""
    notes = []
    for virtual, gpu in zip(options.experimental.virtual_devices, gpus, strict=False):
        if gpu.limit_bytes is None:
            continue
        asked = list(virtual.memory_limit_mb)
        held = scaled_to(asked, gpu.limit_bytes // MIB)
        if held == asked and asked:
            continue
        virtual.memory_limit_mb[:] = held
        if asked:
            notes.append(LimitedSetting(f"virtual devices of {listed(asked)}", listed(held)))
    return notes


def _give_virtual_devices(options: Any, gpus: Sequence[GpuPlan]) -> None:
    """Set limits that no single fraction can express: one list of sizes per GPU."""
    fraction = options.per_process_gpu_memory_fraction
    options.per_process_gpu_memory_fraction = 0
    for gpu in gpus:
        limits = logical_limits_mib(gpu)
        total = gpu.gpu.total_bytes
        if fraction and total:
            limits = scaled_to(limits, int(fraction * total) // MIB)
        options.experimental.virtual_devices.add().memory_limit_mb.extend(limits)
