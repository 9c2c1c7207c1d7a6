"""What a process takes of a card outside its framework's allocator, where the profile does not say.

The CUDA context, the kernels that are loaded, and the handles of cuDNN and cuBLAS.  No limit of a
framework covers them, so they come off what is free, and they are part of a lease.
"""

from __future__ import annotations

from gpuconf.hardware.inventory import Gpu
from gpuconf.profile.model import MemoryRules
from gpuconf.units import MIB

# By the major of the compute capability; the figures published for it are in docs/sharing.md.  All
# modern ones are PyTorch's: with CUDA 12, which loads kernels when they are used, none has been
# published for TensorFlow, nor for JAX at work.  The context is the driver's and the libraries are
# the same, so the three have one figure here, a sixth or more above the largest that was found.
_CONTEXT_MIB = {5: 384, 6: 384, 7: 512, 8: 640}
_LARGEST_CONTEXT_MIB = 896  # from compute capability 9 on, and where it is unknown


def context_bytes(gpu: Gpu, memory: MemoryRules) -> int | None:
    """The bytes that no limit covers, of one process on ``gpu``.

    The profile's ``context``, else the figure for the card's generation; None for a percentage of
    an unknown total.
    """
    if memory.context is not None:
        return memory.context.of(gpu.total_bytes)
    major = gpu.compute_capability[0] if gpu.compute_capability else 0
    return _CONTEXT_MIB.get(major, _LARGEST_CONTEXT_MIB) * MIB
