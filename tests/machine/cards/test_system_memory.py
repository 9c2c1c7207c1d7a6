"""TensorFlow's own reserve on a GPU, by how much is free and by the GPU's generation."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.cards.system_memory import LARGEST_MIB, SYSTEM_MEMORY_MIB, system_memory_bytes


@pytest.mark.parametrize(
    ("available", "major", "expected"),
    [(1 * GIB, 8, 225), (2 * GIB - 1, 6, 225), (2 * GIB, 6, 500), (4 * GIB, 7, 1050),
     (4 * GIB, 8, 1536), (80 * GIB, 9, 1800), (80 * GIB, 12, 1800)],
)  # fmt: skip
def test_the_reserve(available: int, major: int, expected: int) -> None:
    """As TensorFlow's gpu_device.cc has it; little is kept where there is little."""
    assert system_memory_bytes(available, major) == expected * MIB


def test_the_largest_is_the_largest() -> None:
    """What reports give as a range."""
    assert max(SYSTEM_MEMORY_MIB.values()) < LARGEST_MIB
