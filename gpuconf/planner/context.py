"""The memory a process takes outside its framework's allocator, if the profile does not set it.

It consists of the CUDA context, the loaded kernels, and the cuDNN and cuBLAS handles.  No framework
limit covers it, so it is subtracted from the free memory, and it is part of a lease.
"""

from __future__ import annotations

from gpuconf.basics.units import MIB
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.profile.model import MemoryRules

# By major compute capability; docs/evidence/sharing.md lists the published figures.  All for modern
# GPUs come from PyTorch.  With CUDA 12, which loads kernels on first use, none has been published
# for TensorFlow, or for JAX at work.  The context belongs to the driver and the libraries are the
# same, so all three share one figure here, a sixth or more above the largest that was found.
_CONTEXT_MIB = {5: 384, 6: 384, 7: 512, 8: 640}
_LARGEST_CONTEXT_MIB = 896  # from compute capability 9 on, or if it is unknown


def context_bytes(gpu: Gpu, memory: MemoryRules) -> int | None:
    """Return the bytes that one process uses on ``gpu`` and that no limit covers.

    This is the profile's ``context``, or else the figure for the GPU's generation; None for a
    percentage of an unknown total.
    """
    if memory.context is not None:
        return memory.context.of(gpu.total_bytes)
    major = gpu.compute_capability[0] if gpu.compute_capability else 0
    return _CONTEXT_MIB.get(major, _LARGEST_CONTEXT_MIB) * MIB


def keep_free_bytes(gpu: Gpu, memory: MemoryRules) -> int | None:
    """Return the profile's ``keep_free``; None for a percentage of an unknown total."""
    return 0 if memory.keep_free is None else memory.keep_free.of(gpu.total_bytes)
