"""Keras callbacks: `MemoryUsage` logs the GPU memory used in each epoch.

They work with Keras 3 on TensorFlow, PyTorch and JAX, with tf_keras, and with the Keras 2 in older
TensorFlow versions. Importing them imports no framework.
"""

from gpuconf.callbacks.memory_usage import MemoryUsage

__all__ = ["MemoryUsage"]
