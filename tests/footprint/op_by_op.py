"""`gpuconf.estimate` of a step that XLA does not compile, whatever Keras would decide."""

from __future__ import annotations

from typing import Any

import gpuconf
from gpuconf.footprint.memory_estimate import MemoryEstimate


def op_by_op(model: Any, *args: Any, **options: Any) -> MemoryEstimate:
    """The estimate with ``jit=False``."""
    return gpuconf.estimate(model, *args, jit=False, **options)
