"""The real JAX: the plan binds right before its first backend, on the CPU too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from tests.machine.cards import standin
from tests.programs.processes import Nvml, run

pytestmark = pytest.mark.slow

CARD = standin.Card(standin.uuid(0), total=11264 * MIB, reserved=0, used=1945 * MIB)
ROOMY, HALF, FULL = (
    standin.Machine((CARD._replace(used=used * MIB),)) for used in (1945, 6000, 11000)
)
PROGRAM = """
import os, sys, time
import gpuconf.auto, gpuconf
import jax, jax.extend.backend
from jax._src import xla_bridge

def share():
    names = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
    [fraction] = [os.environ[name] for name in names if name in os.environ]
    return round(float(fraction) * 11264)

half, full = sys.argv[1:]
assert share() == 7884
os.environ["STANDIN_NVML"] = half
time.sleep(1.1)
assert not xla_bridge._backends and share() == 7884
for make_backend in (
    jax.devices, jax.extend.backend.get_backend, lambda: jax.numpy.zeros(3), lambda: jax.jit(abs)(1)
):
    if os.fork() == 0:
        make_backend()
        assert share() == 4112, share()
        assert gpuconf.activation().plan.gpus[0].limit_bytes >> 20 == 4112
        print("held", flush=True)
        os._exit(0)
    assert os.wait()[1] == 0

os.environ["STANDIN_NVML"] = full
try:
    jax.devices()
except gpuconf.ShortageError as error:
    print(error)
os.environ["STANDIN_NVML"] = half
jax.devices()
assert share() == 4112
"""


def test_the_plan_is_that_of_the_first_backend(tmp_path: Path, nvml: Nvml) -> None:
    """Each way to it gets a share of the GPU as it is then, not as JAX's import found it.

    On a full GPU the shortage comes out of JAX's own call, and the next try plans again.
    """
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    facts = [nvml(machine)["STANDIN_NVML"] for machine in (HALF, FULL)]
    environ = {**nvml(ROOMY), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", str(script), *facts]
    done = run(command, tmp_path, environ=environ, timeout_s=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["held"] * 4
    assert "not enough GPU memory" in lines[4]
