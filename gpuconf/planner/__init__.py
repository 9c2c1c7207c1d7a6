"""Profile × Inventory -> Plan: which GPUs, how much of each, and the arithmetic that says why.

Pure: nothing here looks at the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuconf.errors import ProfileError
from gpuconf.hardware import VisibleDevices
from gpuconf.hardware.inventory import Gpu, Inventory
from gpuconf.planner.limits import plan_gpu
from gpuconf.planner.plan import GpuPlan, Plan, label
from gpuconf.planner.selection import rules_for, select, unmatched_rules
from gpuconf.planner.shortage import settle_shortages
from gpuconf.planner.visibility import (
    fastest_first,
    see,
    settle_order,
    value_without_figures,
    variables_to_write,
)
from gpuconf.profile.model import GpuRules, Profile
from gpuconf.units import mib

__all__ = [
    "GpuPlan",
    "Plan",
    "hidden_plan",
    "label",
    "make_plan",
    "needs_inventory",
]


def needs_inventory(profile: Profile) -> bool:
    """Whether planning asks for figures or names that only the driver knows."""
    return profile.gpus.kind != "none"


def make_plan(
    profile: Profile,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    chosen_by_parent: str | None = None,
) -> Plan:
    """Plan for ``profile`` on ``inventory``.

    ``environ`` is the environment as the user (or a scheduler) made it: CUDA_VISIBLE_DEVICES is
    narrowed, never widened.  ``chosen_by_parent`` is the CUDA_VISIBLE_DEVICES that gpuconf wrote
    in a parent process: a ``pick`` stays within it, so that children train where the parent does.

    Raises ShortageError where a GPU has less left than the profile needs (``on_shortage: cpu``
    hides such GPUs instead), and ProfileError where the profile does not go with this machine.
    """
    if profile.gpus.kind == "none":
        return hidden_plan(profile)
    value = environ.get("CUDA_VISIBLE_DEVICES")
    if inventory.problem is not None:
        return _without_figures(profile, inventory.problem, value)
    order = environ.get("CUDA_DEVICE_ORDER")
    visible = see(value, order, inventory)
    if not visible.devices:
        return _nothing_visible(profile, inventory, visible, value)
    # The parent counted as variables_to_write says: by the user's own list, or as nvidia-smi.
    counted = order if value is not None and not visible.order_certain else "PCI_BUS_ID"
    inherited = see(chosen_by_parent, counted, inventory).devices
    return _plan_visible(profile, visible, inherited, value)


def _plan_visible(
    profile: Profile, visible: VisibleDevices, inherited: Sequence[Gpu], value: str | None
) -> Plan:
    devices = visible.devices
    chosen, notes = select(profile, devices, inherited)
    if profile.gpus.kind == "all" and value is None and not visible.order_certain:
        chosen = fastest_first(chosen)
    each = {gpu: plan_gpu(gpu, rules_for(gpu, devices, profile)) for gpu in devices}
    planned, hidden = settle_shortages([each[gpu] for gpu in chosen], profile, devices)
    notes += [*unmatched_rules(profile, devices), *hidden]
    if not planned:
        return hidden_plan(profile, devices, notes=tuple(notes))
    if value is not None and not visible.order_certain:
        planned, uncertain = settle_order(planned, list(each.values()), value)
        notes += uncertain
    _refuse_unequal_growth(planned, profile)
    names, order = variables_to_write([plan.gpu for plan in planned], visible, value)
    return Plan(
        profile=profile,
        gpus=tuple(planned),
        visible=devices,
        cuda_visible_devices=names,
        cuda_device_order=order,
        notes=(*notes, *_missing_figures(planned, profile)),
    )


def _refuse_unequal_growth(planned: Sequence[GpuPlan], profile: Profile) -> None:
    """TensorFlow: "Memory growth cannot differ between GPU devices", raised only at init."""
    if len({plan.allow_growth for plan in planned}) > 1:
        raise ProfileError(
            "per_gpu gives allow_growth different values on GPUs used together; "
            "TensorFlow has one switch for all of them",
            hint="set memory.allow_growth once, outside per_gpu",
            file=profile.source,
            key="per_gpu",
        )


def hidden_plan(
    profile: Profile, visible: tuple[Gpu, ...] = (), *, notes: tuple[str, ...] = ()
) -> Plan:
    """The plan that lets no framework see a GPU."""
    return Plan(profile, visible=visible, cuda_visible_devices="-1", hides_gpus=True, notes=notes)


def _without_figures(profile: Profile, problem: str, value: str | None) -> Plan:
    """No NVML: what can be decided without figures still holds for any GPU a framework finds."""
    rules = GpuRules(profile.memory, profile.virtual_devices)
    gpu = plan_gpu(Gpu(index=0), rules)
    notes = []
    dropped = [line.partition(":")[0] for line in gpu.arithmetic if ": dropped" in line]
    if profile.memory.keep_free is None:  # then the profile has no such rule of its own
        dropped = [term for term in dropped if "keep_free" not in term]
    if dropped:
        left = "allow_growth alone is set" if profile.memory.allow_growth else "no limit is set"
        if gpu.limit_bytes is not None:
            left = f"without {' and '.join(dropped)} the limit is {mib(gpu.limit_bytes)}"
        notes.append(f"{problem}: no memory figures, so {left}")
    if profile.gpus.kind == "pick":
        notes.append(f"{problem}; so gpus: {{pick: most-free}} cannot choose, and all are used")
    if profile.per_gpu:
        notes.append(f"{problem}; so per_gpu does nothing, and the same rules hold for all")
    return Plan(
        profile,
        unknown_gpu=gpu._replace(shortage=None),
        cuda_visible_devices=value_without_figures(profile, value),
        notes=tuple(notes),
    )


def _nothing_visible(
    profile: Profile, inventory: Inventory, visible: VisibleDevices, value: str | None
) -> Plan:
    if not inventory.gpus:
        note = "the driver knows no GPU; the program runs on the CPU"
    elif value is None:
        note = "MIG is enabled and no GPU instance is there; the program runs on the CPU"
    else:
        why = visible.ignored[0][1] if visible.ignored else "it is empty"
        note = f"CUDA_VISIBLE_DEVICES={value} hides every GPU ({why}); running on the CPU"
    return Plan(profile, hides_gpus=True, notes=(note,))


def _missing_figures(planned: Sequence[GpuPlan], profile: Profile) -> list[str]:
    memory = profile.memory
    if memory.per_process_gpu_memory_fraction is None and memory.keep_free is None:
        return []
    return [
        f"{label(plan.gpu)} tells no memory figures (unified memory?): only rules that need "
        "none are applied"
        for plan in planned
        if plan.gpu.total_bytes is None or plan.gpu.free_bytes is None
    ]
