"""Environment variables that do not have the intended effect.

``facts.environ`` is the user's environment, without the variables that gpuconf set.
"""

from __future__ import annotations

from gpuconf.basics.environment import switched_off
from gpuconf.commands.doctor.checks.check import NO_GPU, Check, fail, ok, skip, warn
from gpuconf.commands.doctor.checks.packages import cuda_plugins, jax_for_gpus, tensorflow_name
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.errors import UsageError
from gpuconf.machine.cards.inventory import SCHEDULERS
from gpuconf.machine.schedulers.assigned import SLURM_VARIABLES
from gpuconf.planner.visibility import see

GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_JAX_PLATFORMS = "JAX_PLATFORMS"
# A program's GPU shares from Slurm, Kubernetes and NVIDIA's plugin, and limits of HAMi and MPS.
_SHARES = (
    *SLURM_VARIABLES,
    *("GPUCONF_SHARDS_PER_GPU", "GPU_PORTION", "RUNAI_NUM_OF_GPUS", "NVIDIA_VISIBLE_DEVICES"),
)
_LIMITS = ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_MPS_")
_TRUE = ("true", "True", "1")


def _growth(facts: Facts) -> Finding:
    """TensorFlow accepts ``true`` and ``false``, otherwise logs an error (gpu_bfc_allocator.cc)."""
    value = facts.environ.get(GROWTH)
    if value is None:
        return skip(f"{GROWTH} is not set")
    if value in ("true", "false"):
        return ok(f"{GROWTH}={value}")
    return warn(
        f"{GROWTH}={value} is ignored by TensorFlow, which reads only true and false",
        "a profile of gpuconf that sets allow_growth puts the right value in its place",
        fix=f"export {GROWTH}={meant_growth(value)}",
    )


def meant_growth(value: str) -> str:
    """The intended meaning of ``value``; empty means TensorFlow's default."""
    return "false" if value.strip().lower() in ("0", "false", "no", "off", "") else "true"


def _visible_devices(facts: Facts) -> Finding:
    value = facts.environ.get(_VISIBLE)
    if value is None:
        return skip(f"{_VISIBLE} is not set")
    if not facts.has_gpu:
        return skip(f"{_VISIBLE}={value}, and no GPU is known that it could name")
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
    """CUDA's default is FASTEST_FIRST, the alternative PCI_BUS_ID (CUDA C++ programming guide)."""
    order = facts.environ.get(_ORDER)
    gpus = facts.inventory.gpus
    if order not in (None, "FASTEST_FIRST", "PCI_BUS_ID"):
        return warn(
            f"{_ORDER}={order} is not an order that CUDA knows",
            fix=f"export {_ORDER}=PCI_BUS_ID",
        )
    if len(gpus) < 2:
        return skip("one GPU has no order" if gpus else NO_GPU)
    kinds = {(gpu.name, gpu.compute_capability) for gpu in gpus if gpu.name is not None}
    if len(kinds) < 2 or order == "PCI_BUS_ID":
        return ok("CUDA counts the GPUs as nvidia-smi does")
    if any(gpu.mig_enabled for gpu in gpus):
        return skip("how CUDA counts MIG instances among cards is not documented")
    listed = [f"nvidia-smi's GPU {gpu.index}: {gpu.name}" for gpu in gpus]
    return warn(
        "the GPUs are of several kinds, and CUDA counts the fastest first: its GPU 0 need not be "
        "nvidia-smi's",
        *listed,
        fix=f"export {_ORDER}=PCI_BUS_ID",
    )


def _jax_platforms(facts: Facts) -> Finding:
    """Every platform named must start, and ``gpu`` names both cuda and rocm.

    Without the variable, JAX uses what is available, and finally the CPU (jax/_src/xla_bridge.py).
    """
    value = facts.environ.get(_JAX_PLATFORMS)
    if not value:
        return skip(f"{_JAX_PLATFORMS} is not set")
    if facts.packages.version("jax") is None:
        return skip("JAX is not installed")
    named = value.split(",")
    plugins = cuda_plugins(facts.packages)
    if "gpu" in named and plugins:
        meant = ",".join("cuda" if each == "gpu" else each for each in named)
        return fail(
            f"{_JAX_PLATFORMS}={value} asks for cuda and rocm both, and JAX does not start",
            fix=f"export {_JAX_PLATFORMS}={meant}",
        )
    if "cuda" in named and not plugins:
        return fail(
            f"{_JAX_PLATFORMS}={value}, and JAX has no plugin for CUDA: it does not start",
            fix=jax_for_gpus(facts.packages),
        )
    if "cuda" not in named and plugins and facts.has_gpu:
        return warn(
            f"{_JAX_PLATFORMS}={value} keeps JAX off the GPU", fix=f"unset {_JAX_PLATFORMS}"
        )
    return ok(f"{_JAX_PLATFORMS}={value}")


def _legacy_keras(facts: Facts) -> Finding:
    """Three spellings enable it, and tf_keras must be installed (TensorFlow's lazy_loader.py)."""
    value = facts.environ.get("TF_USE_LEGACY_KERAS")
    version = facts.packages.version(tensorflow_name(facts.packages) or "")
    if value is None:
        return skip("TF_USE_LEGACY_KERAS is not set")
    install = None
    if version and facts.packages.version("tf-keras") is None:
        install = f"pip install 'tf_keras~={'.'.join(version.split('.')[:2])}.0'"
    if value not in (*_TRUE, "0", "false", "False", ""):
        meant = int(meant_growth(value) == "true")
        export = f"export TF_USE_LEGACY_KERAS={meant}"
        return warn(
            f"TF_USE_LEGACY_KERAS={value} is ignored: TensorFlow takes true, True and 1",
            fix=f"{install} && {export}" if meant and install else export,
        )
    if value in _TRUE and install:
        return fail(
            f"TF_USE_LEGACY_KERAS={value} asks for tf_keras, which is not installed", fix=install
        )
    return ok(f"TF_USE_LEGACY_KERAS={value}")


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
    """The share of a card from Ray or Slurm, which by itself limits nothing."""
    assigned = facts.profile.assigned
    said = [f"{name}={facts.environ[name]}" for name in sorted(facts.environ) if _is_share(name)]
    if assigned is None:
        return skip("no scheduler has assigned a share of a GPU", *said)
    if assigned.part is None:
        of_shards = "export GPUCONF_SHARDS_PER_GPU=8   # as many as gres.conf gives each GPU"
        without = "gpuconf docs clusters   # where a limit of the profile's own is set instead"
        fix = of_shards if "GPUCONF_SHARDS_PER_GPU" in (assigned.why or "") else without
        return warn(assigned.why or "the share is not known", *said, fix=fix)
    part = f"{assigned.words}: {assigned.part:.4g} of each GPU, as a limit"
    return ok(f"{SCHEDULERS[assigned.scheduler].name} has assigned {part}", *said)


def _is_share(variable: str) -> bool:
    return variable in _SHARES or variable.startswith(_LIMITS)


CHECKS = (
    Check("environment.growth", f"{GROWTH} is a value TensorFlow reads", _growth),
    Check("environment.visible_devices", f"{_VISIBLE} shows what it names", _visible_devices),
    Check("environment.device_order", "CUDA counts cards as nvidia-smi does", _device_order),
    Check("environment.jax_platforms", "JAX may use the GPU, and has what it is asked for",
          _jax_platforms),
    Check("environment.legacy_keras", "TF_USE_LEGACY_KERAS is understood and tf_keras there",
          _legacy_keras),
    Check("environment.share", "a scheduler's share of a GPU can be a limit", _share),
    Check("environment.disabled", "gpuconf is not switched off", _disabled),
)  # fmt: skip
