"""The memory limit for an estimate: as given, or as a profile sets it on this machine now."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuconf.basics.units import sized
from gpuconf.commands.estimate.budget import Budget
from gpuconf.commands.estimate.compile_target import CompileTarget, target_of
from gpuconf.errors import UsageError
from gpuconf.machine.cards import Gpu, Inventory, read_inventory
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES, system_memory_bytes
from gpuconf.planner import Plan
from gpuconf.profile import load_profile
from gpuconf.session.plans import plan_within

_HINT = "set the limit: --limit 6GiB"


def limit_and_budget(
    limit_bytes: int | None,
    profile: str | None,
    *,
    card_bytes: int | None = None,
    read: Callable[[], Inventory] | None = None,
    backend: str = "tensorflow",
) -> tuple[int | None, Budget]:
    """Return the bytes that TensorFlow or JAX may use (None for no limit), and the limit's source.

    ``card_bytes`` is the memory size of a GPU that is not present and that no other program uses.
    The profile is planned for such a GPU; without a limit or a profile, the limit is what the
    framework uses by default. ``read`` returns the machine's GPUs, by default from NVML, along with
    the leases of other processes if the profile sets a limit.

    Raises UsageError if a profile sets no limit here or the GPU has no memory left, and any errors
    that planning raises.
    """
    if profile is not None:
        if card_bytes is None:
            return limit_of_plan(plan_within(load_profile(profile), read=read), backend)
        plan = plan_within(load_profile(profile), read=partial(_empty_card, card_bytes))
        limit_bytes, budget = limit_of_plan(plan, backend)
        source = f"profile {profile}, an empty {sized(card_bytes)} GPU"
        return limit_bytes, budget._replace(source=source, gpu=None)
    inventory = (read or read_inventory)()
    if limit_bytes is None and card_bytes is not None:
        return _of_empty_card(card_bytes, target_of(inventory).compute_capability, backend)
    gpu = next(iter(inventory.gpus), None)
    return limit_bytes, Budget("--limit" if limit_bytes is not None else None, gpu=gpu)


def _of_empty_card(
    card_bytes: int, compute_capability: tuple[int, int], backend: str
) -> tuple[int, Budget]:
    """Return how much of an otherwise unused GPU a framework uses."""
    (gpu,) = _empty_card(card_bytes, compute_capability).gpus
    limit_bytes, line = _default_limit(gpu, backend) or (0, "unknown")
    if limit_bytes == 0:
        raise UsageError(
            f"a {sized(card_bytes)} GPU has no memory left: {line}",
            hint="use a larger --card, or set the limit: --limit 6GiB",
        )
    return limit_bytes, Budget("--card, otherwise unused", (line,))


def _empty_card(
    card_bytes: int, compute_capability: tuple[int, int] = CompileTarget().compute_capability
) -> Inventory:
    gpu = Gpu(0, total_bytes=card_bytes, free_bytes=card_bytes, used_bytes=0)
    return Inventory((gpu._replace(compute_capability=compute_capability),))


def limit_of_plan(plan: Plan, backend: str) -> tuple[int, Budget]:
    """Return a framework's limit on the plan's first GPU; raise UsageError if there is none."""
    name = plan.profile.name
    if not plan.gpus:
        reason = "it hides the GPUs" if plan.hides_gpus else "no GPU on this machine can be queried"
        raise UsageError(f"profile {name} sets no limit here: {reason}", hint=_HINT)
    first = plan.gpus[0]
    source = f"profile {name}, GPU {first.gpu.index}"
    arithmetic = first.arithmetic
    if first.logical_devices_bytes and backend == "tensorflow":
        return first.logical_devices_bytes[0], Budget(
            f"{source}, its first logical device", arithmetic, first.gpu
        )
    if first.limit_bytes is not None:
        return first.limit_bytes, Budget(source, arithmetic, first.gpu)
    known = _default_limit(first.gpu, backend)
    if known is None:
        raise UsageError(
            f"profile {name} sets no limit, and the free memory is unknown", hint=_HINT
        )
    limit_bytes, line = known
    source = f"profile {name} sets no limit, GPU {first.gpu.index}"
    return limit_bytes, Budget(source, (*arithmetic, line), first.gpu)


def _default_limit(gpu: Gpu, backend: str) -> tuple[int, str] | None:
    """How much of a GPU a framework uses by default, and how it is calculated; None if unknown."""
    free, total, capability = gpu.free_bytes, gpu.total_bytes, gpu.compute_capability
    available = max((free or 0) - CONTEXT_BYTES, 0)
    if backend == "jax" and free is not None and total is not None:
        # If less is free, XLA retries with 10 % less.
        line = f"75 % of {sized(total)}, or less if less is free"
        return min(total * 3 // 4, available), line
    if backend != "jax" and free is not None and capability is not None:
        reserve = system_memory_bytes(available, capability[0])
        line = f"{sized(free)} free - {sized(CONTEXT_BYTES)} context - {sized(reserve)} reserve"
        return max(available - reserve, 0), line
    return None


def allocator_options(
    profile: str | None, *, no_growth: bool, workspace_limit: int | None
) -> dict[str, Any]:
    """Return the allocator settings from the options, or else from the profile.

    These are the ``allow_growth`` and ``workspace_limit`` options of :func:`gpuconf.estimate`.
    """
    found = load_profile(profile) if profile is not None else None
    growth = found.memory.allow_growth if found is not None else None
    of_profile = found.tensorflow.cudnn_workspace_limit if found is not None else None
    return {
        "allow_growth": False if no_growth else growth is not False,
        "workspace_limit": of_profile if workspace_limit is None else workspace_limit,
    }
