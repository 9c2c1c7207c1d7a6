"""``gpuconf estimate``: computes a `MemoryEstimate`, the GPU memory of a Keras model's step.

``keras_models`` and ``tensorflow`` trace a step into the types of ``step``.  Everything else uses
only those: ``replay`` in the simulated ``allocator``, ``phases``, ``largest_batch``.
"""

import gpuconf.commands.estimate.text  # noqa: F401  # registers how a MemoryEstimate is printed
from gpuconf.commands.estimate.estimating import estimate
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate

__all__ = ["MemoryEstimate", "estimate"]
