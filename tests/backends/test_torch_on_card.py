"""The plan's limit in real PyTorch on the simulated GPU: to the byte, kept, read back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import CardSpec, simulated_card
from tests.programs.on_card import SPEC, RunOnCard, environment_on

pytestmark = pytest.mark.slow

_LIMIT = 1000 * MIB
_PROFILE = f"memory: {{memory_limit: {_LIMIT}B}}\n"

_HELD = """
import gpuconf.auto
import gpuconf
import torch

def limit(index=0):
    return round(torch._C._cuda_getMemoryFraction(index) * TOTAL)

def fits(size, **options):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda", **options)
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()
    return True

torch._C._cuda_cudaCachingAllocator_enable(False)  # before CUDA's start
TOTAL = torch.cuda.mem_get_info()[1]
MIB = 1 << 20
report(limits=[limit(0), limit(1)], below=fits(1000 * MIB), above=fits(1002 * MIB))
torch.cuda.set_per_process_memory_fraction(0.9, 1)
report(larger=limit(1), first_above=fits(1002 * MIB))
torch._C._cuda_setMemoryFraction(0.9, 0)
torch.cuda.memory.caching_allocator_enable(False)
report(after_setters=limit(0), still_above=fits(1002 * MIB))
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    report(in_pool=fits(1002 * MIB))
torch.cuda.set_per_process_memory_fraction((100 * MIB + 0.25) / TOTAL, 0)
report(smaller=limit(0), small_above=fits(102 * MIB))
torch.cuda.set_per_process_memory_fraction(1.0, 0)
report(back=limit(0))
for one in (1, True, torch.tensor(1.0)):
    torch._C._cuda_setMemoryFraction(one, 0)
report(other_types=limit(0))
report(lines=[str(each) for each in gpuconf.activation().settings])
"""


def test_nothing_the_script_sets_is_above_the_plan(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """Through torch.cuda or torch._C: larger is held, smaller stays, pools too."""
    done = run_on_card(_HELD, write_profile(_PROFILE), frameworks=("torch",))
    told = done.values

    assert told.get("limits") == [_LIMIT, _LIMIT], done.log
    assert (told["below"], told["above"]) == (True, False)
    assert (told["larger"], told["first_above"]) == (_LIMIT, False)
    assert (told["after_setters"], told["still_above"], told["in_pool"]) == (_LIMIT, False, False)
    assert (told["smaller"], told["small_above"]) == (100 * MIB, False)
    assert told["back"] == told["other_types"] == _LIMIT
    assert "torch cuda:0 memory limit: 1000 MiB" in told["lines"]
    assert ".py:26: requested 10138 MiB of cuda:1, got 1000 MiB: profile" in done.log
    assert "torch caching allocator: requested off, which has no limit, got on: profile" in done.log
    assert ".py:29: requested off, which has no limit, got on: profile profile" in done.log


_LATE = """
import torch
held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")

import gpuconf, os
def too_late(text):
    with open("late.yaml", "w") as file:
        file.write(text)
    try:
        gpuconf.configure("./late.yaml")
    except gpuconf.TooLateError as error:
        return str(error)
report(less=too_late("memory: {memory_limit: 1GiB}"),
     none=too_late("gpus: none"),
     one=too_late("gpus: {pick: most-free, count: 1}"),
     enough=too_late("memory: {memory_limit: 3GiB}"))
total = torch.cuda.mem_get_info()[1]
report(limit=round(torch.cuda.get_per_process_memory_fraction() * total),
     lines=[str(each) for each in gpuconf.activation().settings])
"""


def test_too_late_is_what_cannot_hold(run_on_card: RunOnCard) -> None:
    """More held than allowed, or other GPUs than planned: an error with the line.  A cap is not."""
    done = run_on_card(_LATE, frameworks=("torch",))
    told = done.values

    assert told.get("enough", 0) is None, done.log
    began = "PyTorch had already started CUDA, before gpuconf was imported, most likely at "
    assert began in told["less"]
    assert ':7 (held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")): ' in told["less"]
    assert "it uses 2048 MiB of cuda:0, but the plan allows 1024 MiB" in told["less"]
    assert "it detected 2 GPUs, but profile late allows none" in told["none"]
    assert "it detected 2 GPUs, but the plan has 1" in told["one"]
    assert told["limit"] == 3 << 30
    assert "torch cuda:0 memory limit: 3072 MiB, of which it had 2048 MiB" in told["lines"]


_CHANGED = """
import gpuconf.auto
import gpuconf, os, torch
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = OPTIONS
seen = torch.cuda.device_count()
total = torch.cuda.get_device_properties(0).total_memory
report(seen=seen, limit=round(torch.cuda.get_per_process_memory_fraction() * total),
     uuid=str(torch.cuda.get_device_properties(0).uuid),
     planned=[gpu.gpu.uuid for gpu in gpuconf.activation().plan.gpus],
     lines=[str(each) for each in gpuconf.activation().settings])
"""
_OPTIONS = """
torch:
  expandable_segments: true
  garbage_collection_threshold: 0.75
  max_split_size: 128MiB
"""


def test_variables_changed_after_the_import(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """The GPU is planned again, a smaller fraction of torch's variable stays, options too."""
    options = "max_split_size_mb:64,per_process_memory_fraction:0.05"
    code = _CHANGED.replace("OPTIONS", repr(options))
    profile = write_profile(_PROFILE + _OPTIONS)
    done = run_on_card(code, profile, frameworks=("torch",))
    told = done.values

    assert told.get("seen") == 1, done.log
    assert told["planned"] == [f"GPU-{told['uuid']}"]
    assert told["limit"] == int(SPEC.total_bytes * 0.05)
    lines = told["lines"]
    assert "torch expandable_segments: True" in lines
    assert "torch garbage_collection_threshold: 0.75" in lines
    differing = "torch max_split_size: requested 128 MiB, got 64 MiB: "
    assert any(line.startswith(differing) for line in lines)


_EXACT = """
import random
import torch
from gpuconf.backends.torch import caps
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.planner import GpuPlan, Plan
from gpuconf.profile import Profile

total = torch.cuda.mem_get_info()[1]
settings = []

def put(limit):
    gpu = Gpu(index=0, uuid=None, name=None, total_bytes=total, free_bytes=total)
    caps.put(torch, Plan(Profile("any"), (GpuPlan(gpu, limit),)), settings.append)
    return round(torch.cuda.get_per_process_memory_fraction(0) * total)

def fits(size):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()
    return True

draw = random.Random(total)
limits = [draw.randrange(1, total + 1) for _ in range(200)] + [total, 1]
assert [put(limit) for limit in limits] == limits
assert all(setting.status == "ok" for setting in settings)
for size in (20 << 20, 334 << 20):
    put(size)
    assert fits(size)
    put(size - 1)
    assert not fits(size)
    put(size)
    assert fits(size)
"""


_AT_NIGHT = [pytest.param(mib * MIB, marks=pytest.mark.nightly) for mib in (8192, 11264)]


@pytest.mark.parametrize("total_bytes", [25438126080, *_AT_NIGHT])
def test_limits_are_exact_to_the_byte(tmp_path: Path, total_bytes: int) -> None:
    """200 random limits read back alike, on three totals; torch refuses at the byte above."""
    script = tmp_path / "exact.py"
    script.write_text(_EXACT, encoding="utf-8")
    with simulated_card(CardSpec(total_bytes=total_bytes)) as card:
        environ = environment_on(card, ("torch",))
        paths = f"{environ['PYTHONPATH']}:{os.getcwd()}"
        done = subprocess.run(
            [sys.executable, str(script)], env={**environ, "PYTHONPATH": paths},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr


_FREE = """
import gpuconf.auto
import torch

MIB = 1 << 20
first = torch.cuda.mem_get_info()  # initializes CUDA
def free(*device):
    return round(torch.cuda.mem_get_info(*device)[0] / MIB)
held = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
report(first=first, after=free(), devices=[free(0), free("cuda:0"), free(torch.device("cuda"))],
       other=free(1), accelerator=round(torch.accelerator.get_memory_info(0)[0] / MIB))
del held
report(cached=free())
torch.cuda.empty_cache()
report(emptied=free(), driver=torch.cuda.cudart().cudaMemGetInfo(0)[0] // MIB)
torch.cuda.set_per_process_memory_fraction(400 * MIB / first[1], 0)
report(smaller=free(), context=free(torch.cuda.device(0)), name=torch.cuda.mem_get_info.__name__)
import gpuconf
report(lines=[str(each) for each in gpuconf.activation().settings])
"""

_OWN_ALLOCATOR = """
import gpuconf.auto
import torch
memory = torch.cuda.memory
memory.change_current_allocator(memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free"))
report(free=torch.cuda.mem_get_info(0)[0])
import gpuconf
report(lines=[str(each) for each in gpuconf.activation().settings])
"""


def test_free_memory_is_within_the_limit(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """On each device, however it is named; the driver's own figure is unchanged."""
    values = run_on_card(_FREE, write_profile(_PROFILE), frameworks=("torch",)).values
    assert values["first"] == [_LIMIT, SPEC.total_bytes]
    assert (values["after"], values["devices"]) == (900, [900, 900, 900])
    assert (values["other"], values["accelerator"]) == (1000, 900)
    assert (values["cached"], values["emptied"], values["smaller"]) == (900, 1000, 400)
    assert values["driver"] > 8000
    assert (values["context"], values["name"]) == (400, "mem_get_info")
    assert "torch free memory: within the limit" in values["lines"]


def test_free_memory_is_the_devices(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """Where the profile wants that, and where no limit applies."""
    profile = write_profile(_PROFILE + "torch: {report_free: device}\n")
    values = run_on_card(_FREE, profile, frameworks=("torch",)).values
    assert values["first"][0] > 8000 * MIB
    assert "torch free memory: the device's" in values["lines"]

    profile, off = write_profile(_PROFILE), {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    uncached = run_on_card(_FREE, profile, frameworks=("torch",), **off).values
    assert uncached["first"][0] > 8000 * MIB, "there is no limit"
    own = run_on_card(_OWN_ALLOCATOR, profile, frameworks=("torch",)).values
    assert own["free"] > 8000 * MIB
    assert "torch free memory: the device's" in own["lines"]
    assert [line for line in own["lines"] if "own allocator does not support a limit" in line]
