"""``gpuconf.isolated`` on the simulated GPU: its memory before, during and after calls."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import gpuconf
from gpuconf.basics.units import MIB
from gpuconf.simcard import Card
from tests.programs.card_clients import STORY, wait_until
from tests.programs.on_card import RunOnCard
from tests.programs.processes import Start, clean_environment, run_with
from tests.programs.stand_ins import write_torch

pytestmark = pytest.mark.slow(seconds=60)

ROOT = Path(__file__).resolve().parents[2]
IDLE = (STORY.used_bytes, ())  # the desktop's memory, and no process


def state_of(card: Card) -> tuple[int, tuple[object, ...]]:
    """The memory in use, and the processes that NVML lists."""
    return card.used_bytes(), card.processes()


def put_on(card: Card, bridge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs of this process use the GPU, whose own TensorFlow must start before that."""
    run_with([sys.executable, "-c", "pass"], os.environ)
    for name, value in card.environment(os.environ, bridge=bridge).items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("warm_programs")
@pytest.mark.parametrize(
    ("sizes", "ahead"),
    [
        ((1, 1, 1), False),
        ((1, 1, 1), True),
        pytest.param(range(512, 10752, 512), False, marks=pytest.mark.nightly),
    ],
    ids=["three", "three-ahead", "twenty"],
)
def test_trials_leave_the_gpu_as_it_was(
    card: Card, bridge: Path, monkeypatch: pytest.MonkeyPatch, sizes: Sequence[int], ahead: bool
) -> None:
    """Each has the GPU, a History without its model, and a model that a next one continues.

    A process that waits for the next trial does not use the GPU.  Twenty growing models would fill
    it in one process.
    """
    put_on(card, bridge, monkeypatch)

    @gpuconf.isolated(profile="half-card", ahead=ahead)
    def trial(given: Any, units: int) -> tuple[Any, ...]:
        import keras
        import numpy as np
        import pynvml
        import tensorflow as tf

        class Doubling(keras.layers.Layer):  # type: ignore[misc]
            def call(self, x: Any) -> Any:
                return 2 * x

        data = np.ones((8, 4096), "float32")
        model = given
        if model is None:
            layers = [keras.Input((4096,)), keras.layers.Dense(units), Doubling()]
            model = keras.Sequential(layers)
            model.compile("adam", "mse", jit_compile=False)
        history = model.fit(data, np.ones((8, units)), verbose=0)
        pynvml.nvmlInit()
        used = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used
        steps = int(model.optimizer.iterations)
        return used, steps, history, model, tf.constant([1.0]), tf.Variable(2), keras.Variable(3.0)

    model = None
    for number, units in enumerate(sizes, start=1):
        assert state_of(card) == IDLE
        used, steps, history, model, *values = trial(model if units == 1 else None, units)
        assert used > STORY.used_bytes + 400 * MIB  # a CUDA context at least
        assert steps == (number if units == 1 else 1)
        assert len(history.history["loss"]) == 1
        assert not hasattr(history, "model")
        assert isinstance(model, gpuconf.ModelFile)
        assert [(type(each).__name__, float(each.sum())) for each in values] == [
            ("ndarray", 1),
            ("ndarray", 2),
            ("ndarray", 3),
        ]
    assert state_of(card) == IDLE


_OTHERS = """
import sys
import pynvml
import gpuconf.auto

@gpuconf.isolated
def in_torch(wanted):
    import torch
    layer = torch.nn.Linear(4, 4).cuda()
    leaf = torch.ones(2, requires_grad=True)
    leaf.sum().backward()
    return layer, torch.zeros(wanted, dtype=torch.uint8, device="cuda"), leaf, leaf.grad

@gpuconf.isolated
def in_jax():
    import jax, numpy
    with jax.default_device(jax.devices("cpu")[0]):
        keys = jax.random.split(jax.random.key(7))
    return jax.device_put(numpy.arange(3)), keys

@gpuconf.isolated
def in_tensorflow():
    import tensorflow as tf
    with tf.device("GPU:0"):
        return tf.constant([1.0, 2.0])

tensor = in_tensorflow()
report(tensor=str(type(tensor)), sum=float(tensor.sum()), has_tf="tensorflow" in sys.modules)
array, keys = in_jax()
report(array=str(type(array)), total=int(array.sum()), imported="jax" in sys.modules)
report(keys=[str(keys.dtype), keys.shape])
layer, tensor, leaf, gradient = in_torch(1 << 20)
import torch
report(devices=[layer.weight.device.type, layer.weight.requires_grad, tensor.device.type])
report(type=type(layer.weight).__name__)
report(gradients=[leaf.grad is None, gradient.tolist()])
try:
    in_torch(1 << 40)
except torch.OutOfMemoryError as error:
    report(oom=gpuconf.explain(error).facts.user_code.code)
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
report(started=torch.cuda.is_initialized(),
       processes=len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)))
"""


def test_results_start_no_cuda(run_on_card: RunOnCard) -> None:
    """They are on the CPU here; an out-of-memory error has its type, and is explained."""
    done = run_on_card(_OTHERS, frameworks=("torch", "jax"))
    assert done.code == 0, done.log[-3000:]
    found = done.values
    assert (found["array"], found["total"]) == ("<class 'numpy.ndarray'>", 3)
    assert not found["imported"]
    assert found["keys"] == ["uint32", [2, 2]]  # the data of two keys
    assert (found["tensor"], found["sum"]) == ("<class 'numpy.ndarray'>", 3)
    assert not found["has_tf"]
    assert found["devices"] == ["cpu", True, "cpu"]
    assert found["type"] == "Parameter"
    assert found["gradients"] == [True, [1, 1]]  # PyTorch pickles a tensor without its .grad
    assert "torch.zeros(wanted" in found["oom"]
    assert (found["started"], found["processes"]) == (False, 0)


_HOLDER = """
import sys, time
import gpuconf
from tests.programs.cuda_client import MIB, Cuda

def hold():
    cuda = Cuda()
    cuda.enter()
    cuda.allocate(1024 * MIB)
    print("holds", flush=True)
    return cuda
"""


def test_a_killed_caller_frees_the_gpu(start: Start, card: Card, tmp_path: Path) -> None:
    """A kernel that is restarted cannot end its call."""
    code = "hold()\n    time.sleep(600)"
    program = start(
        [sys.executable, "-c", f"{_HOLDER}\ndef call():\n    {code}\ngpuconf.isolated(call)()"],
        card.environment(clean_environment(tmp_path, {"PYTHONPATH": str(ROOT)})),
    )
    assert program.read_line() == "holds"
    assert card.used_bytes() >= STORY.used_bytes + 1024 * MIB
    assert [each.pid for each in card.processes()] != [program.pid]
    program.kill()
    program.wait()
    wait_until(lambda: state_of(card) == IDLE)


def test_a_shortage_because_of_the_caller(start: Start, card: Card, tmp_path: Path) -> None:
    """The hint is to compute in isolated functions only."""
    code = (
        "held = hold()\n"
        "def call(): import tensorflow\n"
        "def too_much(): return gpuconf.isolated(memory={'at_least': '9GiB'})(call)()\n"
        "try: too_much()\n"
        "except gpuconf.ShortageError as error: print(error.hint)\n"
    )
    program = start(
        [sys.executable, "-c", _HOLDER + code],
        card.environment(clean_environment(tmp_path, {"PYTHONPATH": str(ROOT)})),
    )
    assert program.read_line() == "holds"
    assert "compute only in isolated functions" in program.read_line()


# Two calls at the same time or one after the other; ``ps`` shows how much is reserved meanwhile.
_RESERVING = """
import json, os, pathlib, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
import gpuconf.auto

@gpuconf.isolated
def call(wanted):
    import torch
    torch.cuda._lazy_init()
    pathlib.Path(f"call-{os.getpid()}").touch()
    while len(list(pathlib.Path().glob("call-*"))) < wanted:
        time.sleep(0.01)
    words = [sys.executable, "-m", "gpuconf", "ps", "--json"]
    shown = json.loads(subprocess.run(words, stdout=subprocess.PIPE).stdout)["gpus"][0]
    reserved = [each["lease_bytes"] for each in shown["processes"] if each["lease_bytes"]]
    pathlib.Path(f"seen-{os.getpid()}").touch()
    while len(list(pathlib.Path().glob("seen-*"))) < wanted:
        time.sleep(0.01)
    return [gpuconf.plan().gpus[0].limit_bytes >> 20, [each >> 20 for each in reserved]]

count = int(sys.argv[1])
with ThreadPoolExecutor(count) as pool:
    found = list(pool.map(call, [count, count])) if count > 1 else [call(1), call(1)]
print(json.dumps(found))
"""


@pytest.mark.parametrize(("run", "count"), [((), 2), (("-m", "gpuconf", "run", "--"), 1)])
def test_reservations_of_calls(
    start: Start, card: Card, tmp_path: Path, run: Sequence[str], count: int
) -> None:
    """Calls at the same time have one each; under `gpuconf run`, each call has the run's."""
    write_torch(tmp_path)
    (tmp_path / "script.py").write_text(_RESERVING, encoding="utf-8")
    python = [sys.executable, *run, *([sys.executable] if run else [])]
    environ = clean_environment(tmp_path, {"GPUCONF_PROFILE": "half-card"})
    program = start([*python, "script.py", str(count)], card.environment(environ))
    context_mib = 640
    first, second = json.loads(program.read_line())
    assert first == second
    limit, reserved = first
    assert reserved == [limit + context_mib] * count
    assert state_of(card) == IDLE
