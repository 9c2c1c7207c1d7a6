"""The live probe of `gpuconf doctor --probe`: child processes run a few operations on every GPU."""

from gpuconf.doctor.live.findings import LIVE_CHECKS
from gpuconf.doctor.live.frameworks import FRAMEWORKS, JAX, TENSORFLOW, TORCH, ProbedFramework
from gpuconf.doctor.live.probing import LiveReport, measure

__all__ = [
    "FRAMEWORKS",
    "JAX",
    "LIVE_CHECKS",
    "TENSORFLOW",
    "TORCH",
    "LiveReport",
    "ProbedFramework",
    "measure",
]
