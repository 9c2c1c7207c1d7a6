"""Image files to batches, holding paths instead of images: `stream` and `sequence`.

`stream` returns a `tf.data.Dataset`, `sequence` a `keras.utils.PyDataset` that needs no TensorFlow.
Importing this module imports neither; each function imports what it needs.
"""

from gpuconf.images.failures import Failure, Failures, ImageError
from gpuconf.images.memory_plan import MemoryPlan, plan_memory
from gpuconf.images.sequences import sequence
from gpuconf.images.streams import stream

__all__ = [
    "Failure",
    "Failures",
    "ImageError",
    "MemoryPlan",
    "plan_memory",
    "sequence",
    "stream",
]
