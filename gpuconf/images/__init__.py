"""Turns image files into batches, holding paths instead of images: `stream`.

It returns a `tf.data.Dataset`.  Importing this module does not import TensorFlow; `stream` does.
"""

from gpuconf.images.failures import Failure, Failures, ImageError
from gpuconf.images.memory_plan import MemoryPlan, plan_memory
from gpuconf.images.streams import stream

__all__ = [
    "Failure",
    "Failures",
    "ImageError",
    "MemoryPlan",
    "plan_memory",
    "stream",
]
