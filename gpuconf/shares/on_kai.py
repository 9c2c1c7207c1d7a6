"""KAI's assignment to this pod; KAI is the Kubernetes scheduler that Run:ai is built on.

Its binder sets ``GPU_PORTION`` in pods that share a GPU, and enforces nothing (docs/gpu-sharing in
kai-scheduler/KAI-Scheduler).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.hardware.inventory import KAI
from gpuconf.shares.assigned import PORTION, Assigned


def assigned(environ: Mapping[str, str]) -> Assigned | None:
    """Return the part of each GPU that the pod has; None for a pod with whole GPUs."""
    if PORTION not in environ:
        return None
    portion = _portion(environ)
    words = f"{PORTION}={environ[PORTION]}"
    if portion is None:
        why = f"no limit for KAI's share: {words} is not part of a GPU"
        return Assigned(KAI, None, words, why)
    return Assigned(KAI, portion, words)


def _portion(environ: Mapping[str, str]) -> float | None:
    try:
        portion = float(environ.get(PORTION, ""))
    except ValueError:
        return None
    return portion if 0 < portion <= 1 else None
