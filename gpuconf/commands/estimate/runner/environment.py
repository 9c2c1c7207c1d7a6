"""The environment of an estimate's child process on a simulated GPU, without a profile."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.basics.environment import before_gpuconf

# These refer to a real GPU, or to features that a simulated one lacks.
_OF_REAL_CARDS = ("CUDA_VISIBLE_DEVICES", "TF_GPU_ALLOCATOR", "TF_XLA_FLAGS")
_MADE = {
    "GPUCONF_DISABLE": "1",  # no other process shares the GPU
    "TF_CPP_MIN_LOG_LEVEL": "2",  # TensorFlow's warnings do not concern the user
    "GPUCONF_SIMCARD_KERNELS": "skip",
}


def environ_for_simulation(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that measures memory on a simulated GPU."""
    kept = before_gpuconf(environ)
    return {**{name: kept[name] for name in kept if name not in _OF_REAL_CARDS}, **_MADE}
