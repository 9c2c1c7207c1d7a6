"""The memory limits that TensorFlow's GPU devices really have, once they exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuconf.backends.tensorflow.devices import logical_limits_mib, match
from gpuconf.planner import Plan
from gpuconf.settings import Setting
from gpuconf.units import MIB, mib


def of_context(context: Any) -> dict[str, int]:
    """Device name -> limit in bytes, of the eager context's GPUs.

    The C API has told memory with each device since TF 1.x; Python's public calls leave it out.
    """
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import pywrap_tf_session as c_api

    devices = pywrap_tfe.TFE_ContextListDevices(context._handle)
    try:
        return {
            c_api.TF_DeviceListName(devices, i): c_api.TF_DeviceListMemoryBytes(devices, i)
            for i in range(c_api.TF_DeviceListCount(devices))
            if c_api.TF_DeviceListType(devices, i) == "GPU"
        }
    finally:
        c_api.TF_DeleteDeviceList(devices)


def of_session(session: Any) -> dict[str, int]:
    """Device name -> limit in bytes, of a version-1 session's GPUs."""
    devices = session.list_devices()
    return {d.name: d.memory_limit_bytes for d in devices if d.device_type == "GPU"}


def of_attributes(devices: Iterable[Any]) -> dict[str, int]:
    """Device name -> limit in bytes, of the DeviceAttributes that list_local_devices returns."""
    return {d.name: d.memory_limit for d in devices if d.device_type == "GPU"}


def compare(limits: Mapping[str, int], plan: Plan) -> list[Setting]:
    """One Setting per device: the plan's limit against the real one.

    Smaller than planned is fine: the script may ask for less.  More than one MiB over is not.
    """
    wanted = _wanted_bytes(len(limits), plan)
    settings = []
    for (name, real), limit in zip(sorted(limits.items()), wanted, strict=True):
        short = name.rpartition("device:")[2]
        if limit is None:
            settings.append(Setting(f"limit of {short}", "none", mib(real)))
            continue
        why = None
        if real > limit + MIB:
            why = "the device was made with other options than the plan's"
        settings.append(Setting(f"limit of {short}", mib(limit), mib(real), why))
    return settings


def _wanted_bytes(count: int, plan: Plan) -> list[int | None]:
    """The planned limit of each of ``count`` devices; the smallest where they do not pair up."""
    flat = [limit * MIB for gpu in plan.gpus for limit in logical_limits_mib(gpu)]
    if len(flat) == count:
        return list(flat)
    return [gpu.limit_bytes for gpu in match([None] * count, plan)]
