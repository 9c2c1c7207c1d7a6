"""Apply the plan through tf.config's public calls, and read the result back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import say
from gpuconf.basics.units import MIB
from gpuconf.errors import BackendError, TooLateError
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.planner import GpuPlan, Plan

Record = Callable[[Setting], None]
_T = TypeVar("_T")


def configure(plan: Plan, tf: Any, record: Record) -> list[GpuPlan | None]:
    """Set the limit, logical devices or growth of every GPU that TensorFlow lists.

    Creates no device, but initializes CUDA, which a process must not do before it forks.  First
    reverts what an earlier plan set. Returns the plan for each physical GPU, in TensorFlow's order,
    and None for a hidden one. Raises BackendError if TensorFlow refuses.
    """
    physical = tf.config.list_physical_devices("GPU")
    _forget_earlier(physical)
    wanted, plans = _assign(tf, physical, plan)
    try:
        if tf.config.get_visible_devices("GPU") != wanted:
            tf.config.set_visible_devices(wanted, "GPU")
        if not any(logical_limits_mib(each) for each in plans):  # TensorFlow refuses both
            fractions = [each.unsized_fraction for each in plans if each.unsized_fraction]
            _set_fraction(tf, min(fractions, default=0))
        for device, gpu in zip(wanted, plans, strict=True):
            _configure_one(tf, device, gpu, record)
    except (RuntimeError, ValueError) as error:
        raise BackendError(
            f"TensorFlow refused a setting from profile {plan.profile.name}: {error}",
            hint="make `import gpuconf.auto` the first line of the script",
        ) from error
    if plan.hides_gpus:
        record(Setting("tensorflow visible GPUs", "none", f"{len(wanted) or 'none'}"))
    elif len(wanted) != len(plan.gpus) and plan.gpus:
        _report_missing(len(plan.gpus), len(wanted), record)
    by_device = dict(zip(wanted, plans, strict=True))
    return [by_device.get(device) for device in physical]


def hide(tf: Any, record: Record) -> None:
    """Hide all GPUs from TensorFlow, because another framework trains."""
    tf.config.set_visible_devices([], "GPU")
    record(Setting("tensorflow visible GPUs", "none", "none"))


def logical_limits_mib(gpu: GpuPlan) -> list[int]:
    """Return the ``memory_limit`` of each logical device of ``gpu``, in TensorFlow's unit, MiB."""
    if gpu.logical_devices_bytes:
        return [size // MIB for size in gpu.logical_devices_bytes]
    return [] if gpu.limit_bytes is None else [gpu.limit_bytes // MIB]


# --- matching devices to GPUs -------------------------------------------------------------------


def _assign(tf: Any, physical: list[Any], plan: Plan) -> tuple[list[Any], list[GpuPlan]]:
    """Return the TensorFlow GPUs that the plan uses, and the plan for each.

    CUDA_VISIBLE_DEVICES makes the two orders match, unless only CUDA knows how it numbers GPUs of
    different models; those are matched by name.
    """
    if plan.hides_gpus:
        return [], []
    names = [_card_name(tf, device) for device in physical]
    if len(physical) == len(plan.gpus):
        return physical, _paired(list(plan.gpus), [gpu.gpu.name for gpu in plan.gpus], names)
    if len(physical) == len(plan.visible) and plan.gpus:
        # CUDA was initialized before CUDA_VISIBLE_DEVICES was narrowed, so all are still listed.
        visible = _paired(list(plan.visible), [gpu.name for gpu in plan.visible], names)
        planned = {gpu.gpu: gpu for gpu in plan.gpus}
        wanted = [(d, planned[g]) for d, g in zip(physical, visible, strict=True) if g in planned]
        return [device for device, _ in wanted], [gpu for _, gpu in wanted]
    return physical, [_smallest(plan)] * len(physical)


def _card_name(tf: Any, device: Any) -> str | None:
    """Return the GPU's name from CUDA; the query creates no device."""
    name: str | None = tf.config.experimental.get_device_details(device).get("device_name")
    return name


def _paired(
    things: list[_T], theirs: Sequence[str | None], names: Sequence[str | None]
) -> list[_T]:
    """Reorder ``things``, named ``theirs``, to match ``names`` if both hold the same names."""
    if sorted(map(str, theirs)) != sorted(map(str, names)):
        return things
    left = list(zip(theirs, things, strict=True))
    ordered = []
    for name in names:
        place = next(i for i, (candidate, _) in enumerate(left) if candidate == name)
        ordered.append(left.pop(place)[1])
    return ordered


def _smallest(plan: Plan) -> GpuPlan:
    """Return a plan that is safe for any GPU, for GPUs that cannot be matched.

    TensorFlow skips old or weak GPUs, so it may list a different number than planned.
    """
    if not plan.gpus:
        return plan.unknown_gpu or GpuPlan(Gpu(index=0))
    known = [gpu for gpu in plan.gpus if gpu.limit_bytes is not None]
    return min(known, key=lambda gpu: gpu.limit_bytes or 0, default=plan.gpus[0])


# --- applying it --------------------------------------------------------------------------------


def _forget_earlier(physical: Sequence[Any]) -> None:
    """Clear limits and growth, since tf.config can replace logical devices but not remove them.

    This works only until devices exist; after that, TensorFlow rejects further settings anyway.
    """
    from tensorflow.python.eager import context

    current = context.context()
    if getattr(current, "_context_handle", None) is not None:
        return
    for device in physical:
        getattr(current, "_virtual_device_map", {}).pop(device, None)
        if device in getattr(current, "_memory_growth_map", {}):
            current._memory_growth_map[device] = None


def _configure_one(tf: Any, device: Any, gpu: GpuPlan, record: Record) -> None:
    limits = logical_limits_mib(gpu)
    if limits:
        _set_limits(tf, device, limits, record)
    elif gpu.allow_growth is not None:
        tf.config.experimental.set_memory_growth(device, gpu.allow_growth)
        seen = tf.config.experimental.get_memory_growth(device)
        why = None if seen == gpu.allow_growth else "TensorFlow kept a different value"
        record(Setting(f"memory growth {_name(device)}", str(gpu.allow_growth), str(seen), why))


def _set_fraction(tf: Any, fraction: float) -> None:
    """Limit GPUs whose total memory only TensorFlow knows; tf.config itself takes no fraction."""
    from tensorflow.python.eager import context

    if fraction:
        current = context.context()
        current._config = current._config or tf.compat.v1.ConfigProto()
        current._config.gpu_options.per_process_gpu_memory_fraction = fraction


def _set_limits(tf: Any, device: Any, limits: list[int], record: Record) -> None:
    configuration = tf.config.LogicalDeviceConfiguration
    tf.config.set_logical_device_configuration(
        device, [configuration(memory_limit=limit) for limit in limits]
    )
    seen = [
        int(logical.memory_limit)
        for logical in tf.config.get_logical_device_configuration(device) or ()
    ]
    why = None if seen == limits else "TensorFlow kept a different value"
    record(Setting(f"memory_limit {_name(device)}", _mib_list(limits), _mib_list(seen), why))


def _report_missing(planned: int, listed: int, record: Record) -> None:
    why = "TensorFlow skips GPUs that are too old or too small"
    if not listed:
        why = (
            "TensorFlow lists none: a library is missing, or this version of TensorFlow has no CUDA"
        )
    setting = Setting("GPUs that TensorFlow uses", str(planned), str(listed), why)
    record(setting)
    say(str(setting))


def refuse_hidden_before(plan: Plan) -> None:
    """Raise TooLateError: CUDA was initialized with every GPU hidden, which cannot be changed."""
    raise TooLateError(
        f"profile {plan.profile.name} needs a GPU, but CUDA was initialized while all GPUs were "
        "hidden",
        hint="make `import gpuconf.auto` the first line of the script, with the profile it needs",
    )


def _name(device: Any) -> str:
    return str(device.name).removeprefix("/physical_device:")


def _mib_list(limits: Sequence[int]) -> str:
    return " + ".join(f"{limit} MiB" for limit in limits) or "none"
