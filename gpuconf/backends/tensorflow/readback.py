"""Read the actual memory limits of TensorFlow's GPU devices, once they exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuconf.basics.setting import Setting
from gpuconf.basics.units import MIB, sized
from gpuconf.planner import GpuPlan


def of_context(context: Any) -> dict[str, int]:
    """Return device name -> limit in bytes, for the eager context's GPUs, without remote ones.

    The C API has reported each device's memory since TF 1.x; Python's public calls omit it.
    """
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import pywrap_tf_session as c_api

    here = context.host_address_space()
    devices = pywrap_tfe.TFE_ContextListDevices(context._handle)
    try:
        names = [
            c_api.TF_DeviceListName(devices, i) for i in range(c_api.TF_DeviceListCount(devices))
        ]
        return {
            name: c_api.TF_DeviceListMemoryBytes(devices, i)
            for i, name in enumerate(names)
            if c_api.TF_DeviceListType(devices, i) == "GPU" and name.startswith(f"{here}/")
        }
    finally:
        c_api.TF_DeleteDeviceList(devices)


def of_session(session: Any) -> dict[str, int]:
    """Return device name -> limit in bytes, for a version-1 session's GPUs."""
    devices = session.list_devices()
    return {d.name: d.memory_limit_bytes for d in devices if d.device_type == "GPU"}


def of_attributes(serialized: Iterable[bytes]) -> dict[str, int]:
    """Return device name -> limit in bytes, for the DeviceAttributes from list_devices."""
    from tensorflow.core.framework import device_attributes_pb2

    devices = map(device_attributes_pb2.DeviceAttributes.FromString, serialized)
    return {d.name: d.memory_limit for d in devices if d.device_type == "GPU"}


def compare(
    limits: Mapping[str, int], options: Any, gpus: Sequence[GpuPlan | None]
) -> list[Setting]:
    """Return one Setting per device, which compares the plan's limit with the actual one.

    ``options`` are the GPUOptions that the devices were created with, and ``gpus`` holds the plan
    for each of TensorFlow's physical GPUs. A smaller limit than planned is fine: the script may
    request less. The limits of a GPU's devices may add up to that GPU's limit, plus 1 MiB each for
    rounding.
    """
    settings = []
    for group, gpu in groups(limits, options, gpus):
        limit = None if gpu is None else gpu.limit_bytes
        total = sum(limits[name] for name in group)
        too_much = limit is not None and total > limit + len(group) * MIB
        why = "the device was created with different options from the plan's" if too_much else None
        asked = _shares(limit, gpu, len(group))
        for name, share in zip(group, asked, strict=True):
            short = name.rpartition("device:")[2]
            settings.append(Setting(f"limit of {short}", share, sized(limits[name], cut=True), why))
    return settings


def groups(
    limits: Mapping[str, int], options: Any, gpus: Sequence[GpuPlan | None]
) -> list[tuple[list[str], GpuPlan | None]]:
    """Return the devices of each physical GPU, in TensorFlow's order, with that GPU's plan."""
    names = sorted(limits, key=lambda name: int(name.rpartition(":")[2]))
    used = [gpus[index] for index in visible_indices(options, len(gpus))]
    counts = [max(1, len(v.memory_limit_mb)) for v in options.experimental.virtual_devices]
    counts = counts or [1] * len(used)
    if len(counts) != len(used) or sum(counts) != len(names):
        # TensorFlow skipped an unknown GPU, so compare all with the largest limit.
        known = [gpu for gpu in used if gpu is not None]
        largest = max(known, key=lambda gpu: gpu.limit_bytes or 0, default=None)
        return [([name], largest) for name in names]
    left = iter(names)
    return [([next(left) for _ in range(n)], gpu) for n, gpu in zip(counts, used, strict=True)]


def visible_indices(options: Any, count: int) -> list[int]:
    """Return the indices of TensorFlow's ``count`` GPUs that ``visible_device_list`` names."""
    entries = [entry.strip() for entry in options.visible_device_list.split(",")]
    listed = [int(entry) for entry in entries if entry.isdigit() and int(entry) < count]
    return listed or list(range(count))


def _shares(limit: int | None, gpu: GpuPlan | None, count: int) -> list[str]:
    if limit is None or gpu is None:
        return ["none"] * count
    sizes = gpu.logical_devices_bytes
    each = sizes if len(sizes) == count else [limit] * count
    return [sized(size, cut=True) for size in each]
