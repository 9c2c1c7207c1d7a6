"""The part of a GPU's memory that TensorFlow does not allocate."""

from __future__ import annotations

from gpuconf.basics.units import GIB, MIB

CONTEXT_BYTES = 450 * MIB  # a CUDA context: real ones take some 300 to 600 MB
IDLE_BYTES = 256 * MIB  # an unused GPU may still show some

# GetMinSystemMemory in TensorFlow's gpu_device.cc, by major compute capability.
SYSTEM_MEMORY_MIB = {5: 500, 6: 500, 7: 1050, 8: 1536}
LARGEST_MIB = 1800
SMALL_MIB = 225  # if less than 2 GiB are available


def system_memory_bytes(available_bytes: int, capability_major: int) -> int:
    """Return TensorFlow's reserve on a GPU with this much memory free after the CUDA context.

    ``capability_major`` is the 8 in compute capability 8.6.  Source: GetMinSystemMemory in
    tensorflow/core/common_runtime/gpu/gpu_device.cc.
    """
    if available_bytes < 2 * GIB:
        return SMALL_MIB * MIB
    return SYSTEM_MEMORY_MIB.get(capability_major, LARGEST_MIB) * MIB
