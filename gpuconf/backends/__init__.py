"""From a plan to settings: one module per framework, for its environment variables and calls."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.backends.jax import environment as jax
from gpuconf.backends.tensorflow import environment as tensorflow
from gpuconf.backends.torch import environment as torch
from gpuconf.basics.environment import Change
from gpuconf.basics.setting import Setting
from gpuconf.planner import Plan
from gpuconf.profile import Profile
from gpuconf.profile.owned_variables import OWNED_VARIABLES


def environment_changes(
    profile: Profile,
    plan: Plan | None,
    baseline: Mapping[str, str],
    *,
    has_tf_keras: bool = False,
    has_amd_gpu: bool = False,
    knows_new_jax_name: bool = False,
    has_cupy: bool = False,
) -> list[Change]:
    """Return every variable that ``profile`` asks to set, for all frameworks, plus its ``env``.

    Without a ``plan``, return only those that need no figures: ``gpus: none``, growth, allocators,
    ``env``. ``baseline`` is the environment as the user set it; see
    :mod:`gpuconf.basics.environment`. ``has_tf_keras`` says whether the package tf_keras can be
    imported, ``has_amd_gpu`` whether ROCm finds a GPU, and ``knows_new_jax_name`` whether the
    installed JAX reads XLA_CLIENT_MEM_FRACTION. ``has_cupy`` says whether CuPy can be imported.
    """
    growth = profile.memory.allow_growth if plan is None else plan.allow_growth
    changes = _visibility(profile, plan, has_amd_gpu=has_amd_gpu)
    changes += tensorflow.wishes(profile, growth, has_tf_keras=has_tf_keras)
    changes += jax.wishes(profile, growth)
    if plan is not None:
        changes += jax.limit_wishes(plan, baseline, knows_new_name=knows_new_jax_name)
    if plan is not None and has_cupy:
        from gpuconf.backends import cupy  # `import gpuconf.auto` makes no plan

        changes += cupy.limit_wishes(plan, baseline)
    changes += torch.wishes(profile, baseline)
    changes += [Change(name, value, f"env.{name}") for name, value in profile.env]
    return changes


def _visibility(profile: Profile, plan: Plan | None, *, has_amd_gpu: bool) -> list[Change]:
    """Return the variables for the plan; ``gpus: none`` does not depend on the machine."""
    values = {"CUDA_VISIBLE_DEVICES": "-1" if profile.gpus.kind == "none" else None}
    if plan is not None:
        values = {
            "CUDA_VISIBLE_DEVICES": plan.cuda_visible_devices,
            "CUDA_DEVICE_ORDER": plan.cuda_device_order,
        }
    if has_amd_gpu and values["CUDA_VISIBLE_DEVICES"] == "-1":
        # If it is set, HIP does not read CUDA's; ROCm 10 documents this one alone.
        values["HIP_VISIBLE_DEVICES"] = "-1"
    return [
        Change(name, value, OWNED_VARIABLES.get(name, "gpus"), overrules=True)
        for name, value in values.items()
        if value is not None
    ]


def unenforced_limits(plan: Plan | None, environ: Mapping[str, str]) -> list[Setting]:
    """Return a Setting with the reason for each limit that is not a hard cap in ``environ``."""
    if plan is None or plan.hides_gpus or not plan.limits_memory:
        return []
    found = {
        "tensorflow": (tensorflow.ALLOCATOR, tensorflow.unenforced_limit(environ)),
        "jax": (jax.ALLOCATOR, jax.unenforced_limit(environ)),
        "torch": (torch.UNCACHED, torch.unenforced_limit(environ)),
    }
    return [
        Setting(f"memory limit of {name} as a cap", "yes", "no", why, variable)
        for name, (variable, why) in found.items()
        if why is not None
    ]
