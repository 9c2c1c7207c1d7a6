"""The real JAX: the plan binds right before its first backend, on the CPU too."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.units import MIB
from tests.hardware import standin
from tests.programs.processes import Nvml, run_python

pytestmark = pytest.mark.slow

CARD = standin.Card(standin.uuid(0), total=11264 * MIB, reserved=0, used=1945 * MIB)
ROOMY, HALF = (standin.Machine((CARD._replace(used=used * MIB),)) for used in (1945, 6000))

START = """
import os, sys, time
import gpuconf.auto, gpuconf
FRACTIONS = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
def share():
    [fraction] = [os.environ[name] for name in FRACTIONS if name in os.environ]
    return round(float(fraction) * 11264)
"""


@pytest.mark.parametrize(
    "make_backend",
    ["jax.devices()", "jax.numpy.zeros(3)", "jax.extend.backend.get_backend()", "jax.jit(abs)(1)"],
)
def test_every_way_to_the_first_backend(make_backend: str, tmp_path: Path, nvml: Nvml) -> None:
    """The share is of the card as it is then, not as it was when JAX was imported."""
    program = f"""
import jax, jax.extend.backend
assert share() == 7884
from jax._src import xla_bridge
os.environ["STANDIN_NVML"] = {nvml(HALF)["STANDIN_NVML"]!r}
time.sleep(1.1)
assert not xla_bridge._backends and share() == 7884
{make_backend}
assert share() == 4112, share()
assert gpuconf.activation().plan.gpus[0].limit_bytes >> 20 == 4112
"""
    environ = {**nvml(ROOMY), "JAX_PLATFORMS": "cpu"}
    run_python(START + program, tmp_path, environ=environ, timeout_s=120)


def test_a_full_card_at_the_first_backend(tmp_path: Path, nvml: Nvml) -> None:
    """The shortage comes out of JAX's own call, and the next try plans anew."""
    full = standin.Machine((CARD._replace(used=11000 * MIB),))
    program = f"""
import jax
os.environ["STANDIN_NVML"] = {nvml(full)["STANDIN_NVML"]!r}
time.sleep(1.1)
try:
    jax.devices()
except gpuconf.ShortageError as error:
    assert "not enough GPU memory" in str(error)
else:
    raise AssertionError
os.environ["STANDIN_NVML"] = {nvml(HALF)["STANDIN_NVML"]!r}
jax.devices()
assert share() == 4112
"""
    environ = {**nvml(ROOMY), "JAX_PLATFORMS": "cpu"}
    run_python(START + program, tmp_path, environ=environ, timeout_s=120)
