"""The environment of an estimate's child process on a simulated GPU, without a profile."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.basics.environment import before_gpuconf

# These refer to a real GPU, or to features that a simulated one lacks.
_OF_REAL_CARDS = ("CUDA_VISIBLE_DEVICES", "TF_GPU_ALLOCATOR", "TF_XLA_FLAGS")


def environ_for_simulation(environ: Mapping[str, str]) -> dict[str, str]:
    """Disable profiles, since no other process shares the GPU; enable growth as in an estimate."""
    kept = before_gpuconf(environ)
    made = {name: kept[name] for name in kept if name not in _OF_REAL_CARDS}
    return {**made, "GPUCONF_DISABLE": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
