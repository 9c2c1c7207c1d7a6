"""Environment variables that do not do what they were set for.

``facts.environ`` is the environment as the user made it, without what gpuconf set itself.
"""

from __future__ import annotations

from gpuconf.doctor.checks.check import NO_GPU, Check, fail, ok, skip, warn
from gpuconf.doctor.checks.packages import tensorflow_name
from gpuconf.doctor.facts import Facts
from gpuconf.doctor.finding import Finding
from gpuconf.environ import switched_off
from gpuconf.errors import UsageError
from gpuconf.hardware import mps
from gpuconf.planner.visibility import see

GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_JAX_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
# jaxlib/xla_client.py, generate_pjrt_gpu_plugin_options: another value is a ValueError.
_JAX_ALLOCATORS = ("default", "platform", "bfc", "cuda_async", "vmm")
_TF_ALLOCATOR = "TF_GPU_ALLOCATOR"
_TRUE = ("true", "True", "1")


def _growth(facts: Facts) -> Finding:
    """TensorFlow reads ``true`` and ``false``, else it logs an error (gpu_bfc_allocator.cc)."""
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
    """What the author of ``value`` means; an empty text is TensorFlow's default."""
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
    """CUDA C++ programming guide: FASTEST_FIRST is the default, and PCI_BUS_ID the other value."""
    order = facts.environ.get(_ORDER)
    gpus = facts.inventory.gpus
    if order not in (None, "FASTEST_FIRST", "PCI_BUS_ID"):
        return warn(
            f"{_ORDER}={order} is no order that CUDA knows",
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


def _jax_fraction(facts: Facts) -> Finding:
    """jaxlib/xla_client.py, generate_pjrt_gpu_plugin_options; an empty value counts as unset."""
    found = {name: facts.environ[name] for name in _FRACTIONS if facts.environ.get(name)}
    if not found:
        return skip("no fraction is set for JAX")
    if len(found) == 2:
        return fail(
            f"{' and '.join(found)} are both set: JAX does not start (ValueError)",
            fix=f"unset {_FRACTIONS[1]}",
        )
    ((name, value),) = found.items()
    try:
        good = 0 < float(value) <= 1
    except ValueError:
        good = False
    if not good:
        return fail(
            f"{name}={value} is no share of a card, from 0 to 1",
            fix=f"export {name}={_meant_share(value)}",
        )
    return ok(f"{name}={value}")


def _meant_share(value: str) -> str:
    """The share that is meant where the value is in percent; else JAX's own default."""
    try:
        share = float(value.rstrip("%")) / 100
    except ValueError:
        share = 0.0
    return f"{share:.2f}" if 0.01 <= share <= 1 else "0.75"


def _allocator(facts: Facts) -> Finding:
    """TensorFlow: gpu_process_state.cc compares with three values and takes else for none."""
    tensorflow, jax = facts.environ.get(_TF_ALLOCATOR), facts.environ.get(_JAX_ALLOCATOR)
    if jax and jax.lower() not in _JAX_ALLOCATORS:
        return fail(
            f"{_JAX_ALLOCATOR}={jax} is no allocator of JAX, which does not start with it",
            f"it takes {', '.join(_JAX_ALLOCATORS)}",
            fix=f"unset {_JAX_ALLOCATOR}",
        )
    if tensorflow in ("cuda_malloc_async", "cuda_malloc"):
        return warn(
            f"with {_TF_ALLOCATOR}={tensorflow} a memory limit of TensorFlow's is no cap",
            "it helps where memory is fragmented, and takes what it needs",
            fix=f"unset {_TF_ALLOCATOR}",
        )
    if jax and jax.lower() == "platform":
        return warn(
            f"with {_JAX_ALLOCATOR}=platform JAX takes memory call by call, without a cap, slowly",
            fix=f"unset {_JAX_ALLOCATOR}",
        )
    if tensorflow and tensorflow != "memory_guard":
        return warn(
            f"{_TF_ALLOCATOR}={tensorflow} is no allocator of TensorFlow's, which ignores it",
            "it takes cuda_malloc_async, and for debugging cuda_malloc and memory_guard",
            fix=f"unset {_TF_ALLOCATOR}",
        )
    if not tensorflow and not jax:
        return skip("no allocator is chosen by a variable")
    return ok("the chosen allocators keep to limits")


def _legacy_keras(facts: Facts) -> Finding:
    """tensorflow/python/util/lazy_loader.py: three spellings count, and tf_keras must be there."""
    value = facts.environ.get("TF_USE_LEGACY_KERAS")
    version = facts.packages.version(tensorflow_name(facts.packages) or "")
    if value is None:
        return skip("TF_USE_LEGACY_KERAS is not set")
    if value not in (*_TRUE, "0", "false", "False", ""):
        return warn(
            f"TF_USE_LEGACY_KERAS={value} is ignored: TensorFlow takes true, True and 1",
            fix="export TF_USE_LEGACY_KERAS=1",
        )
    if value in _TRUE and version and facts.packages.version("tf-keras") is None:
        minor = ".".join(version.split(".")[:2])
        return fail(
            f"TF_USE_LEGACY_KERAS={value} asks for tf_keras, which is not installed",
            fix=f"pip install 'tf_keras~={minor}.0'",
        )
    return ok(f"TF_USE_LEGACY_KERAS={value}")


def _mps(facts: Facts) -> Finding:
    """CUDA MPS documentation: the daemon enforces the limit, so without one nothing does."""
    value = facts.environ.get(mps.LIMIT)
    if not value:
        return skip(f"{mps.LIMIT} is not set")
    if facts.system.mps_is_running is False:
        return warn(
            f"{mps.LIMIT}={value} limits nothing: no MPS daemon is running",
            fix="nvidia-cuda-mps-control -d",
        )
    return ok(f"{mps.LIMIT}={value}, and an MPS daemon is there")


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


CHECKS = (
    Check("environment.growth", f"{GROWTH} is a value TensorFlow reads", _growth),
    Check("environment.visible_devices", f"{_VISIBLE} shows what it names", _visible_devices),
    Check("environment.device_order", "CUDA counts cards as nvidia-smi does", _device_order),
    Check("environment.jax_fraction", "JAX's memory fraction is set once, and is a share",
          _jax_fraction),
    Check("environment.allocator", "no allocator is chosen that voids a memory limit", _allocator),
    Check("environment.legacy_keras", "TF_USE_LEGACY_KERAS is understood and tf_keras there",
          _legacy_keras),
    Check("environment.mps", "a limit for MPS has a daemon that enforces it", _mps),
    Check("environment.disabled", "gpuconf is not switched off", _disabled),
)  # fmt: skip
