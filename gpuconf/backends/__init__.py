"""Plan -> settings, one module per framework; each has its environment variables and its calls."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.backends import jax, torch
from gpuconf.backends.tensorflow import environment as tensorflow
from gpuconf.environ import Change
from gpuconf.planner import Plan
from gpuconf.settings import Setting


def environment_changes(
    plan: Plan, baseline: Mapping[str, str], *, has_tf_keras: bool = False
) -> list[Change]:
    """Every variable the plan would like to set, for all frameworks and the profile's ``env``.

    ``baseline`` is the environment as the user made it; see :mod:`gpuconf.environ`.
    ``has_tf_keras`` says whether the package tf_keras can be imported.
    """
    changes = []
    if plan.cuda_visible_devices is not None:
        value = plan.cuda_visible_devices
        changes.append(Change("CUDA_VISIBLE_DEVICES", value, "gpus", overrules=True))
    if plan.cuda_device_order is not None:
        order = plan.cuda_device_order
        changes.append(Change("CUDA_DEVICE_ORDER", order, "gpus", overrules=True))
    changes += tensorflow.wishes(plan, has_tf_keras=has_tf_keras)
    changes += jax.wishes(plan, baseline)
    changes += torch.wishes(plan, baseline)
    changes += [Change(name, value, f"env.{name}") for name, value in plan.profile.env]
    return changes


def voided_caps(plan: Plan, environ: Mapping[str, str]) -> list[Setting]:
    """For each framework whose limit will not act as a cap in ``environ``, a Setting says why."""
    if not plan.limits_memory:
        return []
    found = {"tensorflow": tensorflow.voided_cap(environ), "jax": jax.voided_cap(environ)}
    return [
        Setting(f"memory limit of {name} as a cap", "yes", "no", why)
        for name, why in found.items()
        if why is not None
    ]
