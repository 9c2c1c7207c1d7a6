"""Callbacks for Keras: `MemoryUsage` logs the GPU memory of every epoch.

They serve Keras 3 on TensorFlow, PyTorch and JAX, tf_keras and the Keras 2 of older TensorFlows
alike, and importing them imports no framework.
"""

from gpuconf.callbacks.memory_usage import MemoryUsage

__all__ = ["MemoryUsage"]
