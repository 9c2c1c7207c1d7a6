"""`gpuconf.release()`: what real frameworks return to the GPU while their process continues."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow(seconds=30)

_IN_USE = """
import gpuconf.auto
import os
from gpuconf.machine.cards import read_inventory
def in_use():
    gpu, _ = read_inventory().gpus
    return gpu.with_own_bytes(os.getpid()).own_bytes >> 20
def release():
    released = gpuconf.release()
    gpu = released.gpus[0]
    return [gpu.before_bytes >> 20, gpu.after_bytes >> 20, repr(released)]
"""
_TORCH = """
from IPython.core.interactiveshell import InteractiveShell
import torch
shell = InteractiveShell.instance(colors="nocolor")
make = "torch.empty(512 << 20, dtype=torch.uint8, device='cuda')"
torch.cuda.init()
started = in_use()
shell.run_cell("import torch")
shell.run_cell(f"(lambda x: lambda: x)({make})", store_history=True)
shell.run_cell(f"def fail():\\n    x = {make}\\n    raise ValueError\\nfail()")
kept = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
report(started=started, first=release())
del kept
report(second=release(), again=len(torch.empty(4, device="cuda")))
"""
_JAX = """
import jax, numpy
limit = lambda: jax.local_devices()[0].memory_stats()["bytes_limit"]
report(before=limit())
array = jax.device_put(numpy.ones(64 << 20, "f4"))
report(first=release(), still=float(numpy.asarray(array)[0]))
del array
report(second=release(), after=limit(), again=in_use())
"""
_TENSORFLOW = """
import tensorflow as tf
held = tf.zeros(64 << 20)
del held
report(released=release())
"""
_PROFILE = "extends: shared-desktop\nmemory: {reserve: 1GiB}\n"


def test_torch_returns_what_no_tensor_uses(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """Tensors of IPython's results and of its last traceback go, and the profile's reserve."""
    profile = write_profile(_PROFILE)
    out = run_on_card(_IN_USE + _TORCH, profile, frameworks=("torch",), CUDA_VISIBLE_DEVICES="0")
    assert out.code == 0, out.log
    before, after, text = out.values["first"]
    assert before - out.values["started"] == 20  # the block of the last tensor, next to the reserve
    assert before - after == 1024 + 2
    assert text.splitlines() == [
        f"GPU 0 (Simulated GeForce (gpuconf)): {before} MiB in use by this process before, "
        f"{after} MiB after",
        "note: PyTorch keeps 8 MiB for tensors that the program still references",
    ]
    assert out.values["second"][1] < after
    assert out.values["again"] == 4


def test_jax_returns_all_once_no_array_is_left(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """Its next client has the plan's limit and reserve again."""
    profile = write_profile(_PROFILE)
    out = run_on_card(_IN_USE + _JAX, profile, frameworks=("jax",))
    assert out.code == 0, out.log
    values = out.values
    assert values["first"][0] == values["first"][1]
    assert (
        "JAX keeps all of its memory for arrays that the program still references (256"
        in values["first"][2]
    )
    assert values["still"] == 1
    assert values["second"][0] - values["second"][1] >= 1024
    assert "note" not in values["second"][2]
    assert values["after"] == values["before"]
    assert values["again"] == values["second"][0]


def test_tensorflow_keeps_its_memory(run_on_card: RunOnCard) -> None:
    """And the result says so, with what helps."""
    before, after, text = run_on_card(_IN_USE + _TENSORFLOW).values["released"]
    assert before == after
    assert text.endswith(
        "note: TensorFlow keeps its memory until the process ends; "
        "`gpuconf.isolated` runs a function in a separate process"
    )
