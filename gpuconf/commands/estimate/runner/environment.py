"""The environment of an estimate's child process, which has a GPU and no profile."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from gpuconf.basics.environment import before_gpuconf

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


def environ_with_gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that measures on this machine's GPU."""
    found = {**environ, **{name: value for name, value in _own.items() if value is not None}}
    unset = [_OTHER_ALLOCATOR, *(name for name, value in _own.items() if value is None)]
    return {
        **before_gpuconf({name: found[name] for name in found if name not in unset}),
        **_CHILD,
    }


def environ_for_simulation(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that measures on a simulated GPU, kernels skipped."""
    kept = before_gpuconf(environ)
    base = {name: kept[name] for name in kept if name not in (*_OF_REAL_GPUS, _OTHER_ALLOCATOR)}
    return {**base, **_CHILD, "GPUCONF_SIMCARD_KERNELS": "skip"}
