"""The live probe of `gpuconf doctor --probe`: child processes run a few operations on every GPU."""

from gpuconf.commands.doctor.live.findings import LIVE_CHECKS
from gpuconf.commands.doctor.live.frameworks import (
    FRAMEWORKS,
    JAX,
    TENSORFLOW,
    TORCH,
    ProbedFramework,
)
from gpuconf.commands.doctor.live.probing import LiveReport, measure

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
