"""Convert a plan to the variables that JAX reads; a pure module that does not need JAX."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuconf.basics.environment import Change
from gpuconf.planner import Plan
from gpuconf.profile import Profile
from gpuconf.profile.owned_variables import OWNED_VARIABLES

# jaxlib has read the first since 0.4.33 and calls the second deprecated; with both set, it creates
# no GPU client.
NEW_FRACTION, OLD_FRACTION = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
_UNIFIED = "TF_FORCE_UNIFIED_MEMORY"  # XLA also reads it
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_POLICY = re.compile(r"--xla_gpu_memory_fraction_policy=(\S+)")

# How XLA's allocators that do not enforce a limit behave.  `platform` was tested (jax 0.10.2: no
# error up to the last free byte).  `cuda_async` uses the driver's pool, whose limit TensorFlow also
# ignores.  Nothing is known about `vmm`.
_NO_CAP = {
    "platform": "JAX allocates memory call by call, without a limit",
    "cuda_async": "JAX allocates from the driver's own pool, where the limit is not enforced",
    "vmm": "JAX's virtual memory allocator has no known limit",
}


def wishes(profile: Profile, growth: bool | None) -> list[Change]:
    """Return the changes that need no figures; ``growth`` comes from the plan or the profile."""
    preallocate = profile.preallocates_in_jax(growth)
    wanted = {
        _PREALLOCATE: None if preallocate is None else str(preallocate).lower(),
        ALLOCATOR: profile.jax.allocator,
    }
    return [
        Change(name, value, OWNED_VARIABLES[name])
        for name, value in wanted.items()
        if value is not None
    ]


def limit_wishes(plan: Plan, baseline: Mapping[str, str], *, knows_new_name: bool) -> list[Change]:
    """Return the plan's single fraction for all GPUs, which is a cap even without preallocation.

    A smaller value set by the user stays; a larger one is replaced.  Only one of the two names is
    written: the one the user has set, or else the one that the installed JAX prefers.
    """
    share = share_of_plan(plan)
    if share is None:
        return []
    taken = next((name for name in (NEW_FRACTION, OLD_FRACTION) if baseline.get(name)), None)
    name = taken or (NEW_FRACTION if knows_new_name else OLD_FRACTION)
    theirs = baseline.get(name)
    if theirs and is_within(theirs, share):
        return [Change(name, theirs, "memory")]
    gives_way = f"the plan's limit is {share:.9g} of the GPU" if theirs else None
    return [Change(name, f"{share:.9g}", "memory", gives_way=gives_way)]


def share_of_plan(plan: Plan) -> float | None:
    """Return the plan's single fraction for all GPUs; None if the plan limits no GPU."""
    unknown = (plan.unknown_gpu,) if plan.unknown_gpu else ()
    limits = [gpu.limit_of("jax") for gpu in plan.gpus or unknown]
    return next((limit.fraction for limit in limits if limit and limit.fraction), None)


def is_within(asked: object, share: float) -> bool:
    """Whether ``asked`` is a positive fraction of at most ``share``, within float32 precision.

    False if it is not a number.
    """
    try:
        return 0 < float(asked) <= share * (1 + 2**-24)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def unenforced_limit(environ: Mapping[str, str]) -> str | None:
    """Return why JAX's fraction is not a cap in ``environ``; None if it is."""
    if environ.get(_UNIFIED) in ("1", "true"):
        return f"with {_UNIFIED} set, JAX may use all of the GPU and also host memory"
    return _why_growing(environ) or why_no_cap(environ.get(ALLOCATOR, ""))


def _why_growing(environ: Mapping[str, str]) -> str | None:
    """Return why a policy in ``XLA_FLAGS`` overrides the fraction and allows more.

    Without an upper end (``0.75`` or ``0.75+``), it may allow all of the GPU; ``0.3-0.35`` ends at
    0.35 (xla/pjrt/plugin/xla_gpu/xla_gpu_allocator_config.h). JAX up to 0.12 does not have the
    flag.
    """
    policy = _POLICY.search(environ.get("XLA_FLAGS", ""))
    fraction = environ.get(NEW_FRACTION) or environ.get(OLD_FRACTION) or ""
    if policy is None:
        return None
    end = policy[1].partition("-")[2]
    if is_within(fraction, 1) and is_within(end, float(fraction)):
        return None
    return f"with {policy[0]} in XLA_FLAGS, JAX may use {end or 'all'} of the GPU"


def why_no_cap(allocator: str, *, setting: str = ALLOCATOR) -> str | None:
    """Return why the fraction is not a cap with ``allocator`` in ``setting``; None if it is."""
    reason = _NO_CAP.get(allocator.lower())
    return None if reason is None else f"with {setting}={allocator}, {reason}"
