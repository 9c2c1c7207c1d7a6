"""The GPU that XLA compiles for: this machine's, whatever its compute capability."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import GIB
from gpuconf.commands.estimate.compile_target import CompileTarget, target_of, target_text
from gpuconf.machine.cards import Gpu, Inventory

GPU = Gpu(0, uuid="GPU-0", name="NVIDIA X", total_bytes=8 * GIB, compute_capability=(6, 1))


@pytest.mark.parametrize("capability", [(5, 2), (6, 1), (8, 6), (8, 7), (10, 3), (12, 1), (14, 0)])
def test_this_machines_gpu_is_the_target(capability: tuple[int, int]) -> None:
    """Its own memory and compute capability, also of one that no table has."""
    gpu = GPU._replace(compute_capability=capability)
    assert target_of(Inventory((gpu,))) == CompileTarget(8 * GIB, capability, is_here=True)


def test_without_what_nvml_says_it_is_a_common_gpu() -> None:
    """No GPU, or one whose memory or compute capability is unknown, is passed over."""
    unknown = (GPU._replace(total_bytes=None), GPU._replace(compute_capability=None))
    assert target_of(Inventory(())) == target_of(Inventory(unknown)) == CompileTarget()
    assert target_of(Inventory((*unknown, GPU))) == CompileTarget(8 * GIB, (6, 1), is_here=True)


@pytest.mark.parametrize(
    ("capability", "described", "threads"),
    [
        *(((6, 1), (6, 1), 2048), ((12, 1), (12, 1), 1536), ((8, 7), (8, 7), 1536)),
        # Not in the table: the newest older one, or the oldest.
        *(((5, 2), (6, 0), 2048), ((7, 2), (7, 0), 2048), ((11, 0), (10, 3), 2048)),
    ],
)
def test_the_text_has_a_capability_that_xla_knows(
    capability: tuple[int, int], described: tuple[int, int], threads: int
) -> None:
    """With the limits of that one, and with the memory of the GPU itself."""
    target = CompileTarget(8 * GIB, capability)
    text = target_text(target)
    capability_text = "cuda_compute_capability {{ major: {} minor: {} }}".format(*described)
    assert capability_text in " ".join(text.split())
    assert f"threads_per_core_limit: {threads}\n" in text
    assert f"device_memory_size: {8 * GIB}\n" in text
