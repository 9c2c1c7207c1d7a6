"""The plan through tf.config's public calls, and what tf.config says afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gpuconf.errors import BackendError
from gpuconf.hardware.inventory import Gpu
from gpuconf.planner import GpuPlan, Plan
from gpuconf.settings import Setting
from gpuconf.units import MIB

Record = Callable[[Setting], None]
_T = TypeVar("_T")


def configure(plan: Plan, tf: Any, record: Record) -> None:
    """Give every GPU that TensorFlow lists its limit, logical devices or growth.

    Makes no device.  Raises BackendError where TensorFlow refuses a setting, so that the import
    that brought us here fails.
    """
    physical = tf.config.list_physical_devices("GPU")
    try:
        if plan.hides_gpus:
            hide(tf, record)
            return
        wanted = _visible(physical, plan, device_names(tf, physical))
        if len(wanted) < len(physical):
            tf.config.set_visible_devices(wanted, "GPU")
        plans = match(wanted, plan, device_names(tf, wanted))
        for device, gpu in zip(wanted, plans, strict=True):
            _configure_one(tf, device, gpu, record)
    except (RuntimeError, ValueError) as error:
        raise BackendError(
            f"TensorFlow refused a setting of profile {plan.profile.name}: {error}",
            hint="make `import gpuconf.auto` the first line of the script",
        ) from error
    _report_missing(plan, wanted, record)


def hide(tf: Any, record: Record) -> None:
    """Let TensorFlow see no GPU."""
    tf.config.set_visible_devices([], "GPU")
    seen = tf.config.get_visible_devices("GPU")
    why = "TensorFlow still lists GPUs" if seen else None
    record(Setting("tensorflow visible GPUs", "none", f"{len(seen) or 'none'}", why))


def match(devices: Sequence[Any], plan: Plan, names: Sequence[str | None] = ()) -> list[GpuPlan]:
    """The plan of each device, in order; ``names`` are the devices' names where known.

    CUDA_VISIBLE_DEVICES made the orders equal, except where CUDA alone knows how it counts
    unequal cards; those are told apart by name.  Where TensorFlow lists another number of GPUs
    than planned (it passes over old or weak ones), each gets the smallest limit.
    """
    if len(devices) == len(plan.gpus):
        return _paired(list(plan.gpus), [gpu.gpu.name for gpu in plan.gpus], names)
    known = [gpu for gpu in plan.gpus if gpu.limit_bytes is not None]
    if plan.gpus:
        smallest = min(known, key=lambda gpu: gpu.limit_bytes or 0, default=plan.gpus[0])
    else:
        smallest = plan.unknown_gpu or GpuPlan(Gpu(index=0))
    return [smallest] * len(devices)


def _paired(
    things: list[_T], theirs: Sequence[str | None], names: Sequence[str | None]
) -> list[_T]:
    """``things``, whose names are ``theirs``, in the order of ``names`` if those are the same."""
    if sorted(map(str, theirs)) != sorted(map(str, names)):
        return things
    left = list(zip(theirs, things, strict=True))
    ordered = []
    for name in names:
        place = next(i for i, (candidate, _) in enumerate(left) if candidate == name)
        ordered.append(left.pop(place)[1])
    return ordered


def device_names(tf: Any, devices: Sequence[Any]) -> list[str | None]:
    """The cards' names as CUDA gives them; asking makes no device."""
    return [tf.config.experimental.get_device_details(d).get("device_name") for d in devices]


def logical_limits_mib(gpu: GpuPlan) -> list[int]:
    """The ``memory_limit`` of each logical device of ``gpu``, in MiB as TensorFlow counts."""
    if gpu.logical_devices_bytes:
        return [size // MIB for size in gpu.logical_devices_bytes]
    return [] if gpu.limit_bytes is None else [gpu.limit_bytes // MIB]


def _visible(physical: Sequence[Any], plan: Plan, names: Sequence[str | None]) -> list[Any]:
    """Those of TensorFlow's GPUs that the plan wants.

    Where CUDA was started before CUDA_VISIBLE_DEVICES was narrowed, TensorFlow still lists all
    that were visible then.
    """
    if len(physical) != len(plan.visible) or len(plan.gpus) in (0, len(physical)):
        return list(physical)
    chosen = {gpu.gpu for gpu in plan.gpus}
    visible = _paired(list(plan.visible), [gpu.name for gpu in plan.visible], names)
    return [device for device, gpu in zip(physical, visible, strict=True) if gpu in chosen]


def _configure_one(tf: Any, device: Any, gpu: GpuPlan, record: Record) -> None:
    limits = logical_limits_mib(gpu)
    if limits:
        _set_limits(tf, device, limits, record)
    elif gpu.allow_growth is not None:
        tf.config.experimental.set_memory_growth(device, gpu.allow_growth)
        seen = tf.config.experimental.get_memory_growth(device)
        why = None if seen == gpu.allow_growth else "TensorFlow kept another value"
        record(Setting(f"memory growth {_name(device)}", str(gpu.allow_growth), str(seen), why))


def _set_limits(tf: Any, device: Any, limits: list[int], record: Record) -> None:
    configuration = tf.config.LogicalDeviceConfiguration
    tf.config.set_logical_device_configuration(
        device, [configuration(memory_limit=limit) for limit in limits]
    )
    seen = [
        int(logical.memory_limit)
        for logical in tf.config.get_logical_device_configuration(device) or ()
    ]
    why = None if seen == limits else "TensorFlow kept another value"
    record(Setting(f"memory_limit {_name(device)}", _mib_list(limits), _mib_list(seen), why))


def _report_missing(plan: Plan, wanted: Sequence[Any], record: Record) -> None:
    if not plan.gpus or len(wanted) == len(plan.gpus):
        return
    why = (
        "TensorFlow lists none of them: a library is missing or this TensorFlow has no CUDA"
        if not wanted
        else "TensorFlow passes over GPUs it finds too old or too small"
    )
    record(Setting("tensorflow GPUs", str(len(plan.gpus)), str(len(wanted)), why))


def _name(device: Any) -> str:
    return str(device.name).removeprefix("/physical_device:")


def _mib_list(limits: Sequence[int]) -> str:
    return " + ".join(f"{limit} MiB" for limit in limits) or "none"
