"""The live probe of `gpuconf doctor --probe`: a child trains for a moment on every GPU."""

from gpuconf.doctor.live.findings import LIVE_CHECKS
from gpuconf.doctor.live.probing import LiveReport, measure

__all__ = ["LIVE_CHECKS", "LiveReport", "measure"]
