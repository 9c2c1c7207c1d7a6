"""`gpuconf.max_memory()`, as accelerate uses it to place a model's layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow(seconds=20)

_PROFILE = """
extends: shared-desktop
memory: {memory_limit: 1GiB, reserve: 512MiB}
torch: {report_free: device}
"""
_LAYERS = """
import gpuconf
gpuconf.configure()
import torch
from accelerate import infer_auto_device_map

with torch.device("meta"):
    model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192, bias=False) for _ in range(8)))
def layers(max_memory):
    placed = infer_auto_device_map(model, max_memory=max_memory)
    return [list(placed.values()).count(device) for device in (0, 1, "cpu")]
sizes = gpuconf.max_memory()
report(sizes=[sizes[0], sizes[1]], has_cpu=0 < sizes["cpu"] < 1 << 50, ours=layers(sizes))
report(theirs=infer_auto_device_map(model))
held = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
report(after=gpuconf.max_memory()[0], reserved=torch.cuda.memory_reserved(0))
"""
_RESERVED = """
import gpuconf
gpuconf.configure()
import torch
sizes = [gpuconf.max_memory()[0]]
held = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
report(sizes=[*sizes, gpuconf.max_memory()[0]], reserved=torch.cuda.memory_reserved(0))
"""
_MIB = 1 << 20


def test_accelerate_fills_the_limit(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """Layers of 256 MiB: four per GPU, where the device's free memory has room for all.

    accelerate keeps room for the largest layer on the first GPU.
    """
    frameworks = ("torch", "accelerate")
    out = run_on_card(_LAYERS, write_profile(_PROFILE), frameworks=frameworks)
    assert out.code == 0, out.log
    values = out.values
    assert values["sizes"] == [1024 * _MIB, 1024 * _MIB]
    assert values["has_cpu"]
    assert values["ours"] == [3, 4, 1]
    assert values["theirs"] == {"": 0}, "the whole model"
    assert 100 * _MIB <= values["reserved"] == 1024 * _MIB - values["after"]


def test_the_unused_reserve_is_for_the_next_tensors(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """On one GPU PyTorch allocates the reserve, which lowers the figure only as it is used."""
    profile = write_profile(_PROFILE)
    out = run_on_card(_RESERVED, profile, frameworks=("torch",), CUDA_VISIBLE_DEVICES="0")
    assert out.code == 0, out.log
    assert out.values["reserved"] == (512 + 2) * _MIB, "from the start"
    assert out.values["sizes"] == [1024 * _MIB, 924 * _MIB]
