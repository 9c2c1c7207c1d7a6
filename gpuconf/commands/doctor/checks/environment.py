"""Which GPUs the variables show, in which order, and what a scheduler or a switch says.

``facts.environ`` is the user's environment, without the variables that gpuconf set.
"""

from __future__ import annotations

from gpuconf.basics.environment import switched_off
from gpuconf.basics.terminal import printable
from gpuconf.commands.doctor.checks.check import NO_GPU, Check, fail, ok, skip, warn
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.errors import UsageError
from gpuconf.machine.cards.inventory import SCHEDULERS
from gpuconf.machine.schedulers.on_slurm import SLURM_VARIABLES
from gpuconf.planner.visibility import see

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
# A program's GPU shares from Slurm, Kubernetes and NVIDIA's plugin, and limits of HAMi and MPS.
_SHARES = (
    *SLURM_VARIABLES,
    *("GPUCONF_SHARDS_PER_GPU", "GPU_PORTION", "RUNAI_NUM_OF_GPUS", "NVIDIA_VISIBLE_DEVICES"),
)
_LIMITS = ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_MPS_")


def _visible_devices(facts: Facts) -> Finding:
    value = facts.environ.get(_VISIBLE)
    if value is None:
        return skip(f"{_VISIBLE} is not set")
    if not facts.has_gpu:
        return skip(f"{_VISIBLE}={value}, but no known GPU matches it")
    inventory = facts.inventory
    seen = see(value, facts.environ.get(_ORDER), inventory)
    reasons = [f"{entry!r}: {reason}" for entry, reason in seen.ignored]
    every = ",".join(str(gpu.index) for gpu in inventory.gpus)
    if not seen.devices and value.strip() in ("", "-1", "NoDevFiles"):
        return warn(f"{_VISIBLE}={value} hides every GPU", *reasons, fix=f"unset {_VISIBLE}")
    if not seen.devices:
        return fail(f"{_VISIBLE}={value} shows no GPU: {seen.ignored[0][1]}" if seen.ignored
                    else f"{_VISIBLE}={value} shows no GPU", *reasons[1:],
                    fix=f"export {_VISIBLE}={every}")  # fmt: skip
    named = ", ".join(f"GPU {gpu.index} {gpu.name or ''}".rstrip() for gpu in seen.devices)
    if seen.ignored:
        kept = ",".join(seen.entries) or every
        return warn(
            f"{_VISIBLE}={value} shows {len(seen.devices)} of the {len(value.split(','))} it names",
            *reasons,
            f"shown: {named}",
            fix=f"export {_VISIBLE}={kept}   # and any other you meant",
        )
    return ok(f"{_VISIBLE}={value} shows {named}")


def _device_order(facts: Facts) -> Finding:
    """CUDA's default: FASTEST_FIRST; the alternative: PCI_BUS_ID (CUDA C++ programming guide)."""
    order = facts.environ.get(_ORDER)
    gpus = facts.inventory.gpus
    if order not in (None, "FASTEST_FIRST", "PCI_BUS_ID"):
        return warn(
            f"{_ORDER}={order} is not an order that CUDA recognizes",
            fix=f"export {_ORDER}=PCI_BUS_ID",
        )
    if len(gpus) < 2:
        return skip("the order does not matter with one GPU" if gpus else NO_GPU)
    kinds = {(gpu.name, gpu.compute_capability) for gpu in gpus if gpu.name is not None}
    if len(kinds) < 2 or order == "PCI_BUS_ID":
        return ok("CUDA numbers the GPUs as nvidia-smi does")
    if any(gpu.mig_enabled for gpu in gpus):
        return skip("how CUDA numbers MIG instances among GPUs is not documented")
    listed = [f"nvidia-smi's GPU {gpu.index}: {gpu.name}" for gpu in gpus]
    return warn(
        "the GPUs are different models, and CUDA numbers the fastest first: its GPU 0 may not "
        "be nvidia-smi's GPU 0",
        *listed,
        fix=f"export {_ORDER}=PCI_BUS_ID",
    )


def _disabled(facts: Facts) -> Finding:
    try:
        off = switched_off(facts.environ)
    except UsageError as error:
        return fail(error.message, fix="unset GPUCONF_DISABLE")
    if off is None:
        return ok("gpuconf is on")
    return warn(
        f"{off}: `import gpuconf.auto` does nothing",
        fix="unset GPUCONF_DISABLE",
    )


def _share(facts: Facts) -> Finding:
    """The share of a GPU that Ray or Slurm assigned, which by itself limits nothing."""
    assigned = facts.profile.assigned
    said = [f"{name}={facts.environ[name]}" for name in sorted(facts.environ) if _is_share(name)]
    if assigned is None:
        return skip("no scheduler has assigned a share of a GPU", *said)
    if assigned.part is None:
        of_shards = "export GPUCONF_SHARDS_PER_GPU=8   # as many as gres.conf gives each GPU"
        without = "gpuconf docs clusters   # how to set a limit in the profile instead"
        fix = of_shards if "GPUCONF_SHARDS_PER_GPU" in (assigned.why or "") else without
        return warn(assigned.why or "the share is not known", *said, fix=fix)
    part = f"{assigned.words}: {assigned.part:.4g} of each GPU, as a limit"
    return ok(f"{SCHEDULERS[assigned.scheduler].name} has assigned {part}", *said)


def _policy(facts: Facts) -> Finding:
    """An administrator's limits for each user, which programs under gpuconf respect."""
    if facts.policy is None:
        return skip("no policy limits what a user's programs may use together")
    if facts.policy.problem is not None:
        return warn(printable(facts.policy.problem), fix="gpuconf docs howto/lab-policy")
    if not any(facts.policy.rules):
        return skip(f"{facts.policy.path} has no rule for this user")
    return ok(f"{facts.policy.path} limits what a user's programs may use together")


def _is_share(variable: str) -> bool:
    return variable in _SHARES or variable.startswith(_LIMITS)


CHECKS = (
    Check("environment.visible_devices", f"{_VISIBLE} shows what it names", _visible_devices),
    Check("environment.device_order", "CUDA numbers GPUs as nvidia-smi does", _device_order),
    Check("environment.share", "a scheduler's share of a GPU can be a limit", _share),
    Check("environment.policy", "a policy limits what each user may use", _policy),
    Check("environment.disabled", "gpuconf is not switched off", _disabled),
)  # fmt: skip
