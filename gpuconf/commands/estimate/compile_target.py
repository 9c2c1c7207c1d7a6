"""The GPU that XLA compiles for if none is present; for JAX, a text that describes it.

TensorFlow's XLA queries a simulated GPU of this size.  Memory depends on the compute capability,
which selects Triton or cuBLAS for matrix products, and on the GPU's memory, since XLA recomputes
results rather than exceed it.  In measurements, neither the number of multiprocessors nor the size
of the L2 cache changed a byte.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.units import GIB, sized
from gpuconf.machine.cards import Inventory

# Threads and shared memory in bytes, per multiprocessor and the opt-in maximum per block.  Source:
# the table "Technical Specifications per Compute Capability" in NVIDIA's CUDA C++ Programming
# Guide, and cuda::arch_traits in NVIDIA's CCCL.  JAX 0.10.2 compiles for each of these.
_LIMITS = {
    (6, 0): (2048, 65536, 49152),
    (6, 1): (2048, 98304, 49152),
    (7, 0): (2048, 98304, 98304),
    (7, 5): (1024, 65536, 65536),
    (8, 0): (2048, 167936, 166912),
    (8, 6): (1536, 102400, 101376),
    (8, 7): (1536, 167936, 166912),
    (8, 9): (1536, 102400, 101376),
    (9, 0): (2048, 233472, 232448),
    (10, 0): (2048, 233472, 232448),
    (10, 3): (2048, 233472, 232448),
    (12, 0): (1536, 102400, 101376),
    (12, 1): (1536, 102400, 101376),
}
_USUAL = (8, 6)
_USUAL_BYTES = 24 * GIB  # as on a GeForce RTX 3090

# stream_executor.GpuTargetConfigProto, as XLA itself writes it with --xla_dump_to.
_TEXT = """\
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {shared}
  threads_per_core_limit: {threads}
  core_count: 68
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 760080000000
  l2_cache_size: 5242880
  clock_rate_ghz: 1.665
  device_memory_size: {total}
  shared_memory_per_block_optin: {optin}
  cuda_compute_capability {{
    major: {major}
    minor: {minor}
  }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{
  major: 9
  minor: 10
  patch: 2
}}
device_description_str: "gpuconf estimate"
"""


class CompileTarget(NamedTuple):
    """A GPU's memory and compute capability."""

    total_bytes: int = _USUAL_BYTES
    compute_capability: tuple[int, int] = _USUAL
    is_here: bool = False

    def __str__(self) -> str:
        """The text for a note."""
        major, minor = self.compute_capability
        where = "this machine's GPU" if self.is_here else "an assumed GPU"
        return f"{where}, compute capability {major}.{minor} with {sized(self.total_bytes)}"


def target_of(inventory: Inventory) -> CompileTarget:
    """Return this machine's first GPU, or a common one if there is none or NVML cannot tell."""
    for gpu in inventory.gpus:
        if gpu.total_bytes is not None and gpu.compute_capability is not None:
            return CompileTarget(gpu.total_bytes, gpu.compute_capability, is_here=True)
    return CompileTarget()


def described_capability(target: CompileTarget) -> tuple[int, int]:
    """Return the target's compute capability if it is in the table, or the nearest, usually older.

    XLA ends the process for some capabilities that it cannot compile for.
    """
    older = [known for known in _LIMITS if known <= target.compute_capability]
    return max(older, default=min(_LIMITS))


def target_text(target: CompileTarget) -> str:
    """Return the target in XLA's text format."""
    major, minor = described_capability(target)
    threads, shared, optin = _LIMITS[major, minor]
    return _TEXT.format(
        major=major,
        minor=minor,
        threads=threads,
        shared=shared,
        optin=optin,
        total=target.total_bytes,
    )
