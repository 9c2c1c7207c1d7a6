"""The plan for a profile, for the GPUs that are visible and chosen and have enough memory.

Pure: nothing here inspects the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import GpuQuota, Inventory
from gpuconf.machine.cards.visible_devices import VisibleDevices
from gpuconf.planner.frameworks import with_framework_limits
from gpuconf.planner.limits import plan_gpu, with_lease
from gpuconf.planner.other_leases import lease_notes
from gpuconf.planner.plan import GpuPlan, Plan, hidden_plan, label
from gpuconf.planner.scheduler_share import share_notes
from gpuconf.planner.selection import Inherited, rules_for, select, unmatched_rules
from gpuconf.planner.shortage import settle_shortages
from gpuconf.planner.visibility import fastest_first, see, settle_order, variables_to_write
from gpuconf.planner.without_nvml import plan_without_figures
from gpuconf.profile.model import Profile


def make_plan(
    profile: Profile,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    chosen_by_parent: str | None = None,
    order_by_parent: str | None = None,
) -> Plan:
    """Make the plan for ``profile`` on ``inventory``.

    ``environ`` is the environment as the user or a scheduler set it: CUDA_VISIBLE_DEVICES is
    narrowed, never widened.  ``chosen_by_parent`` is the CUDA_VISIBLE_DEVICES that gpuconf wrote in
    a parent process; the plan also stays within it.  ``order_by_parent`` is the CUDA_DEVICE_ORDER
    written with it. The numbers in a list index the user's GPUs; if that selects GPUs outside the
    parent's choice, they index the parent's GPUs.

    Raises ShortageError if a GPU has less memory left than the profile needs (``on_shortage: cpu``
    hides such GPUs instead), and ProfileError if the profile does not fit this machine.
    """
    if profile.gpus.kind == "none" or inventory.unassigned is not None:
        return hidden_plan(profile, notes=tuple(filter(None, [inventory.unassigned])))
    value = environ.get("CUDA_VISIBLE_DEVICES")
    if inventory.problem is not None:
        if chosen_by_parent is not None and _hides_everything(chosen_by_parent):
            return hidden_plan(profile, notes=(_hidden_note(chosen_by_parent),))
        made = plan_without_figures(profile, inventory.problem, value, chosen_by_parent)
        return made._replace(cuda_device_order=order_by_parent)
    order = environ.get("CUDA_DEVICE_ORDER")
    visible = see(value, order, inventory)
    if not visible.devices:
        return _nothing_visible(profile, inventory, visible, value)
    inherited = None
    if chosen_by_parent is not None:
        seen = see(chosen_by_parent, order_by_parent or order, inventory)
        inherited = Inherited(chosen_by_parent, seen)
        if not inherited.within(visible.devices):
            return _hidden_by_parent(profile, visible, inherited)
    profile = _with_the_users_growth(profile, environ)
    made = _plan_visible(profile, visible, inherited, value, inventory.quota)
    unshared = () if inventory.unshared is None else (inventory.unshared,)
    return made._replace(notes=(*made.notes, *unshared, *inventory.notes))


def _with_the_users_growth(profile: Profile, environ: Mapping[str, str]) -> Profile:
    """Reserve the whole limit if the user's own variable makes TensorFlow allocate all of it."""
    if environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() != "false":
        return profile
    return profile._replace(memory=profile.memory._replace(reserve=None))


def _plan_visible(
    profile: Profile,
    visible: VisibleDevices,
    inherited: Inherited | None,
    value: str | None,
    quota: GpuQuota | None,
) -> Plan:
    devices = visible.devices
    chosen, counted, notes = select(profile, devices, inherited, quota)
    guessed = value is None and inherited is None and not visible.order_certain
    if profile.gpus.kind == "all" and guessed:
        chosen = fastest_first(chosen)
    each = {gpu: plan_gpu(gpu, rules_for(gpu, counted, profile)) for gpu in devices}
    planned, hidden = settle_shortages([each[gpu] for gpu in chosen], profile, counted)
    notes += [*unmatched_rules(profile, counted), *hidden]
    if not planned:
        return hidden_plan(profile, devices, notes=tuple(notes))
    text, bound = (value, visible) if inherited is None else inherited
    if text is not None and not bound.order_certain:
        held, uncertain = settle_order(planned, list(each.values()), text)
        planned = [
            plan if plan.lease_bytes else with_lease(plan, rules_for(plan.gpu, counted, profile))
            for plan in held
        ]
        notes += uncertain
    if value and visible.ignored:
        entry, why = visible.ignored[0]
        notes.append(f'CUDA_VISIBLE_DEVICES="{value}" leaves out {entry!r}: {why}')
    _refuse_unequal_growth(planned, profile)
    planned = with_framework_limits(planned, profile)
    names, order = variables_to_write(
        [plan.gpu for plan in planned], visible, inherited and inherited.visible
    )
    return Plan(
        profile=profile,
        gpus=tuple(planned),
        visible=devices,
        cuda_visible_devices=names,
        cuda_device_order=order,
        notes=(
            *notes,
            *share_notes(planned),
            *lease_notes(planned, profile),
            *_missing_figures(planned, profile),
        ),
    )


def _hidden_by_parent(profile: Profile, visible: VisibleDevices, inherited: Inherited) -> Plan:
    """Return the plan of a child that can see none of the GPUs its parent chose."""
    ignored = inherited.visible.ignored
    why = None if _hides_everything(inherited.value) or not ignored else ignored[0][1]
    return hidden_plan(profile, visible.devices, notes=(_hidden_note(inherited.value, why),))


def _hides_everything(chosen_by_parent: str) -> bool:
    """Whether the text alone hides every GPU."""
    first = chosen_by_parent.split(",", maxsplit=1)[0].strip()
    return first in ("", "-1", "NoDevFiles")


def _hidden_note(chosen_by_parent: str, why: str | None = None) -> str:
    because = f" ({why})" if why else ""
    return (
        f"CUDA_VISIBLE_DEVICES={chosen_by_parent}, inherited from the parent process, "
        f"hides every GPU{because}"
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


def _nothing_visible(
    profile: Profile, inventory: Inventory, visible: VisibleDevices, value: str | None
) -> Plan:
    if not inventory.gpus:
        note = "the driver detects no GPU; the program runs on the CPU"
    elif value is None:
        note = "MIG is enabled, but there is no GPU instance; the program runs on the CPU"
    else:
        why = visible.ignored[0][1] if visible.ignored else "it is empty"
        note = f'CUDA_VISIBLE_DEVICES="{value}" hides every GPU ({why}); running on the CPU'
    return Plan(profile, hides_gpus=True, notes=(note,))


def _missing_figures(planned: Sequence[GpuPlan], profile: Profile) -> list[str]:
    memory = profile.memory
    rules = (memory.per_process_gpu_memory_fraction, memory.keep_free, memory.context)
    if all(rule is None for rule in rules):
        return []
    return [
        f"{label(plan.gpu)} does not report its memory: only a fraction or a size applies"
        for plan in planned
        if plan.gpu.total_bytes is None or plan.gpu.free_bytes is None
    ]
