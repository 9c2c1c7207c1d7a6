"""``gpuconf estimate``: a Keras model -> `MemoryEstimate`, what its step takes of a GPU.

``keras_models`` and ``tensorflow`` trace a step; ``step`` is what they give, and all else stands
on it alone: ``replay`` in the simulated ``allocator``, ``phases``, ``largest_batch``.
"""

import gpuconf.footprint.text  # noqa: F401  # registers how a MemoryEstimate is printed
from gpuconf.footprint.estimating import estimate
from gpuconf.footprint.memory_estimate import MemoryEstimate

__all__ = ["MemoryEstimate", "estimate"]
