"""PyTorch's and JAX's own memory code on a simulated card, each alone and beside TensorFlow."""

from __future__ import annotations

import pytest

from gpuconf.units import MIB
from tests.backends.on_card import SPEC, RunOnCard

pytestmark = pytest.mark.slow

_FREE_BYTES = SPEC.total_bytes - SPEC.used_bytes

_TORCH = """
import torch
free, total = torch.cuda.mem_get_info()
tell(free=free, total=total, count=torch.cuda.device_count())
held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
tell(reserved=torch.cuda.memory_reserved(), left=torch.cuda.mem_get_info()[0])
fills = [torch.ones(5, dtype=kind, device="cuda") for kind in
         (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8)]
tell(ones=[fill.cpu().tolist() for fill in fills],
     full=torch.full((3,), 2.5, device="cuda").cpu().tolist(),
     clone=torch.arange(4.).cuda().clone().cpu().tolist())
torch.cuda.set_per_process_memory_fraction(0.25)
try:
    torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError as error:
    tell(refused=str(error))
try:
    torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
except RuntimeError as error:
    tell(product=str(error))
"""

_JAX = """
import jax, numpy
[first, *_] = jax.devices()
held = jax.device_put(numpy.arange(1024, dtype=numpy.float32))
tell(count=len(jax.devices()), limit=first.memory_stats()["bytes_limit"],
     sum=float(numpy.asarray(held).sum()))
try:
    jax.device_put(numpy.zeros((4096, 1 << 20), numpy.uint8)), jax.device_put(
        numpy.zeros((8192, 1 << 20), numpy.uint8)).block_until_ready()
except Exception as error:
    tell(refused=f"{type(error).__name__}: {error}"[:200])
"""


def test_torch_takes_its_memory_from_the_card(run_on_card: RunOnCard) -> None:
    """Allocator, cap, error, fills and copies are real; a matrix product is refused."""
    told = run_on_card(_TORCH, frameworks=("torch",)).told

    assert (told["free"], told["total"], told["count"]) == (_FREE_BYTES, SPEC.total_bytes, 2)
    assert (told["reserved"], told["left"]) == (1024 * MIB, _FREE_BYTES - 1024 * MIB)
    assert told["ones"] == [[1] * 5] * 5
    assert (told["full"], told["clone"]) == ([2.5] * 3, [0, 1, 2, 3])
    assert "2.75 GiB allowed" in told["refused"]
    assert "CUBLAS_STATUS_NOT_SUPPORTED" in told["product"]


def test_jax_takes_its_memory_from_the_card(run_on_card: RunOnCard) -> None:
    """It sees both devices, takes three quarters of one, and refuses what does not fit in that."""
    told = run_on_card(_JAX, frameworks=("jax",)).told

    assert (told["count"], told["limit"]) == (2, SPEC.total_bytes * 3 // 4)
    assert told["sum"] == 1023 * 512
    assert "RESOURCE_EXHAUSTED" in told["refused"]
