"""The environment in which a child of an estimate runs on a simulated card, without a profile."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.environ import before_gpuconf

# They mean a real card, or what a simulated one lacks.
_OF_REAL_CARDS = ("CUDA_VISIBLE_DEVICES", "TF_GPU_ALLOCATOR", "TF_XLA_FLAGS")


def environ_for_simulation(environ: Mapping[str, str]) -> dict[str, str]:
    """No profile applies, since no one shares the card; memory grows, as in an estimate."""
    kept = before_gpuconf(environ)
    made = {name: kept[name] for name in kept if name not in _OF_REAL_CARDS}
    return {**made, "GPUCONF_DISABLE": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
