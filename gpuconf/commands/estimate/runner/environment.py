"""The environment of an estimate's child process, which has a GPU and no profile."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from gpuconf.basics.environment import before_gpuconf
from gpuconf.basics.units import MIB

# These refer to a real GPU, or to features that a simulated one lacks.
_OF_REAL_GPUS = ("CUDA_VISIBLE_DEVICES", "TF_XLA_FLAGS")
_OTHER_ALLOCATOR = "TF_GPU_ALLOCATOR"  # whose allocations TensorFlow does not report
_CHILD = {
    "GPUCONF_DISABLE": "1",  # the limit is not part of what a step needs
    "TF_CPP_MIN_LOG_LEVEL": "2",  # TensorFlow's warnings do not concern the user
}
_own: dict[str, str | None] = {}  # values that this process had before it hid its GPUs


def hide_gpus(environ: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """Set ``values``, and remember those that they replace."""
    _own.update((name, environ.get(name)) for name in values if name not in _own)
    environ.update(values)


def environ_here(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a process that measures on this machine's first visible GPU."""
    found = {**environ, **{name: value for name, value in _own.items() if value is not None}}
    unset = [_OTHER_ALLOCATOR, *(name for name, value in _own.items() if value is None)]
    kept = before_gpuconf({name: found[name] for name in found if name not in unset})
    first = kept.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    return {**kept, **_CHILD, "CUDA_VISIBLE_DEVICES": first}


def environ_for_simulation(
    environ: Mapping[str, str], *, total_bytes: int, workspace_bytes: int
) -> dict[str, str]:
    """Return the variables for a process that measures on a simulated GPU and skips kernels.

    ``total_bytes`` is the memory that the GPU claims to have; each convolution gets
    ``workspace_bytes`` from cuDNN.
    """
    kept = before_gpuconf(environ)
    base = {name: kept[name] for name in kept if name not in (*_OF_REAL_GPUS, _OTHER_ALLOCATOR)}
    return {
        **base,
        **_CHILD,
        "GPUCONF_SIMCARD_KERNELS": "skip",
        "GPUCONF_SIMCARD_TOTAL": str(total_bytes),
        "GPUCONF_SIMCARD_WORKSPACE": str(workspace_bytes),
        # A smaller cap of the user's would leave no algorithm, nor does TensorFlow's 4 GiB.
        "TF_CUDNN_WORKSPACE_LIMIT_IN_MB": str(max(1, -(-workspace_bytes // MIB))),
    }
