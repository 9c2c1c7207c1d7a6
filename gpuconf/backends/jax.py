"""JAX: environment variables that XLA reads when JAX makes its first backend, not before.

So the plan is bound right before: JAX finds its plugins then, and reads the variables there
(seen on jax 0.4.38 and 0.10.2).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from gpuconf.backends.entrances import ENTRANCES, call_before, is_watched
from gpuconf.environ import Change
from gpuconf.profile.schema import OWNED_VARIABLES
from gpuconf.settings import Setting

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.planner import Plan
    from gpuconf.profile import Profile

# JAX knows both names and refuses to start when both are set; older ones know only the second.
_NEW_FRACTION = "XLA_CLIENT_MEM_FRACTION"
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_BRIDGE = ENTRANCES["jax"].module
_GPU_BACKENDS = {"cuda", "gpu", "rocm"}


def wishes(profile: Profile, growth: bool | None) -> list[Change]:
    """Preallocation, which needs no figures; ``growth`` is the plan's, or the profile's."""
    preallocate = profile.preallocates_in_jax(growth)
    if preallocate is None:
        return []
    value = "true" if preallocate else "false"
    return [Change(_PREALLOCATE, value, OWNED_VARIABLES[_PREALLOCATE])]


def limit_wishes(plan: Plan, baseline: Mapping[str, str]) -> list[Change]:
    """The plan's one fraction for all GPUs, which stays a cap when preallocation is off."""
    limits = [gpu.limit_of("jax") for gpu in plan.gpus]
    fraction = next((limit.fraction for limit in limits if limit and limit.fraction), None)
    if fraction is None:
        return []
    name = _NEW_FRACTION if _NEW_FRACTION in baseline else _FRACTION
    return [Change(name, f"{fraction:.9g}", "memory")]


def voided_cap(environ: Mapping[str, str]) -> str | None:
    """Why JAX's fraction will not cap anything in ``environ``; None where it will."""
    if environ.get(ALLOCATOR) == "platform":
        return f"with {ALLOCATOR}=platform JAX takes memory call by call, without a cap"
    return None


def has_gpu_backend() -> bool:
    """Whether JAX has made its GPU backend already: then no variable acts any more."""
    made: Mapping[str, object] = getattr(sys.modules.get(_BRIDGE), "_backends", {})
    return bool(_GPU_BACKENDS & set(made))


def watch(
    bind: Callable[[Callable[[Plan], None]], None],
    use: Callable[[Sequence[str]], None],
    record: Callable[[Setting], None],
) -> str:
    """Bind the plan when JAX makes its first backend; return why that cannot be, "" if it can.

    ``bind`` makes the plan hold and calls what it is given with it, ``use`` counts this process on
    GPUs.
    """
    bridge = sys.modules.get(_BRIDGE)
    names = ENTRANCES["jax"].functions
    name = next((name for name in names if hasattr(bridge, name)), None)
    if name is not None and is_watched(bridge, name):
        return ""
    if has_gpu_backend():
        why = "JAX had made its GPU backend before gpuconf was imported; it keeps its own limit"
        record(Setting("jax memory limit", "the plan's", "JAX's own", why))
        return why
    if name is None:
        why = f"this JAX has no {_BRIDGE}.{names[0]}: its limit was computed when it was imported"
        record(Setting("jax memory limit", "bound at JAX's first backend", None, why))
        return ""

    def before() -> None:
        if not getattr(bridge, "_backends", None):
            plans: list[Plan] = []
            bind(plans.append)  # the variables are the whole of it
            if os.environ.get("JAX_PLATFORMS", "").strip().lower() != "cpu":
                use([each.gpu.uuid for plan in plans for each in plan.gpus if each.gpu.uuid])

    call_before(bridge, name, before)
    return ""
