"""PyTorch's and JAX's own memory code on a simulated GPU, each alone and next to TensorFlow."""

from __future__ import annotations

import signal

import pytest

from gpuconf.basics.units import GIB, MIB
from tests.programs.on_card import SPEC, RunOnCard

pytestmark = pytest.mark.slow

_FREE_BYTES = SPEC.total_bytes - SPEC.used_bytes

_TORCH = """
import torch
free, total = torch.cuda.mem_get_info()
report(free=free, total=total, count=torch.cuda.device_count())
held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
report(reserved=torch.cuda.memory_reserved(), left=torch.cuda.mem_get_info()[0])
kinds = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
report(ones=[torch.ones(5, dtype=kind, device="cuda").cpu().tolist() for kind in kinds],
     full=torch.full((3,), 2.5, device="cuda").cpu().tolist(),
     clone=torch.arange(4.).cuda().clone().cpu().tolist())
torch.cuda.set_per_process_memory_fraction(0.25)
try:
    torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError as error:
    report(refused=str(error))
del held
torch.cuda.empty_cache()
torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
grown = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
segments = [each for each in torch.cuda.memory_snapshot() if each["is_expandable"]]
report(segments=[each["total_size"] for each in segments])
one = torch.ones(4, 4, device="cuda")
for name, compute in {"product": lambda: one @ one,
                      "share": lambda: one.untyped_storage()._share_cuda_()}.items():
    try:
        compute()
    except RuntimeError as error:
        report(**{name: str(error)})
one + 1
report(wrong=True)
"""

_JAX = """
import jax, numpy
[first, *_] = jax.devices()
held = jax.device_put(numpy.arange(1024, dtype=numpy.float32))
report(count=len(jax.devices()), limit=first.memory_stats()["bytes_limit"],
     sum=float(numpy.asarray(held).sum()))
try:
    jax.device_put(numpy.zeros(128 << 20, numpy.uint8))
except RuntimeError as error:
    report(refused=str(error))
step = jax.jit(lambda x: jax.numpy.tanh(x * 2)).lower(held).compile()
report(output=step.memory_analysis().output_size_in_bytes)
step(held)
report(wrong=True)
"""

_TOGETHER = """
import jax, numpy, torch, tensorflow as tf
free = lambda: torch.cuda.mem_get_info()[0] >> 20
start = free()
held = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
after_torch = free()
[gpu, *_] = tf.config.list_physical_devices("GPU")
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(1024)])
zeros = tf.zeros(3)
after_tensorflow = free()
ones = jax.device_put(numpy.ones(3))
report(taken=[start - after_torch, after_torch - after_tensorflow, after_tensorflow - free()],
     limit=jax.devices()[0].memory_stats()["bytes_limit"],
     values=[zeros.numpy().tolist(), numpy.asarray(ones).tolist(),
             torch.ones(3, device="cuda").cpu().tolist()])
"""


_TRAIN = """
import torch
inner, batch, width = 512, 256, 128
model = torch.nn.Sequential(torch.nn.Linear(width, inner), torch.nn.Linear(inner, width)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
weights = sum(each.numel() for each in model.parameters()) * 4
for _ in range(2):
    loss = model(torch.empty(batch, width, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
report(weights=weights, activations=batch * (2 * width + inner) * 4,
     peak=torch.cuda.max_memory_allocated())
"""


def test_torch_takes_its_memory_from_the_card(run_on_card: RunOnCard) -> None:
    """Allocator, cap, error, fills and copies are real; what computes is refused by name."""
    done = run_on_card(_TORCH, frameworks=("torch",))
    told = done.values

    assert (told["free"], told["total"], told["count"]) == (_FREE_BYTES, SPEC.total_bytes, 2)
    assert (told["reserved"], told["left"]) == (1024 * MIB, _FREE_BYTES - 1024 * MIB)
    assert told["ones"] == [[1] * 5] * 6
    assert (told["full"], told["clone"]) == ([2.5] * 3, [0, 1, 2, 3])
    assert "2.75 GiB allowed" in told["refused"]
    assert told["segments"] == [200 * MIB]
    assert "CUBLAS_STATUS_NOT_SUPPORTED" in told["product"]
    assert "not supported (by a simulated GPU)" in told["share"]
    assert "cuMemExportToShareableHandle is not supported" in done.log
    assert (done.code, "wrong" in told) == (-signal.SIGABRT, False)
    assert "CUDAFunctorOnSelf_add" in done.log
    assert "PyTorch's empty" in done.log


def test_jax_takes_its_memory_from_the_card(run_on_card: RunOnCard) -> None:
    """It sees both devices, keeps to its fraction, compiles, and cannot launch."""
    done = run_on_card(_JAX, frameworks=("jax",), XLA_CLIENT_MEM_FRACTION="0.01")
    told = done.values

    assert told["count"] == 2
    assert told["limit"] == -(-SPEC.total_bytes // 100 // (2 * MIB)) * 2 * MIB
    assert told["sum"] == 1023 * 512
    assert "RESOURCE_EXHAUSTED" in told["refused"]
    assert told["output"] == 4096
    assert (done.code, "wrong" in told) == (-signal.SIGABRT, False)
    assert "JAX's device_put" in done.log


def test_three_frameworks_share_a_card_in_one_process(run_on_card: RunOnCard) -> None:
    """CUDA 13's runtime for PyTorch, CUDA 12's for TensorFlow, and JAX's own: one account.

    PyTorch comes first: TensorFlow's libraries export CUDA 12's names, which PyTorch would take.
    """
    told = run_on_card(_TOGETHER, frameworks=("torch", "jax"), XLA_CLIENT_MEM_FRACTION="0.1").values
    pool = -(-(11 * GIB // 10) // (2 * MIB)) * 2

    assert told["taken"] == [512, 1024, pool]
    assert told["values"] == [[0] * 3, [1] * 3, [1] * 3]


def test_torch_trains_without_kernels_to_measure_memory(run_on_card: RunOnCard) -> None:
    """With launches skipped its own allocator sees a whole training step, products and all."""
    done = run_on_card(_TRAIN, frameworks=("torch",), GPUCONF_SIMCARD_KERNELS="skip")
    told = done.values

    assert told["peak"] >= 2 * told["weights"] + told["activations"]
    assert done.log.count("every computed number is garbage") == 1
