"""``gpuconf estimate``: computes a `MemoryEstimate`, the GPU memory of a Keras model's step.

``keras_models`` and ``tensorflow`` trace a step; ``runner`` runs it, or compiles it for ``xla``.
Everything else uses only the types of ``step``: ``account``, ``phases``, ``largest_batch``, and for
a compiled step ``replay`` in the simulated ``allocator``.
"""

import gpuconf.commands.estimate.text  # noqa: F401  # registers how a MemoryEstimate is printed
from gpuconf.commands.estimate.estimating import estimate
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate

__all__ = ["MemoryEstimate", "estimate"]
