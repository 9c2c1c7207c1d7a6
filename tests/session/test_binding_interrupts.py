"""KeyboardInterrupt in what decides: planning, NVML, leases and waiting change nothing.

Each seventh line is tried.  What then writes is one short function, and not tried here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.binding_programs import HALF, INTERRUPT, START, TWO, facts
from tests.programs.processes import Nvml, run_python

pytestmark = pytest.mark.slow


def test_while_the_plan_that_binds_is_made(tmp_path: Path, nvml: Nvml) -> None:
    """Environment, activation and hooks are as they were; the next try binds."""
    program = f"""
import cupy
machine({facts(nvml, HALF)})
grow_old()
lines = at_every_line(lambda: binding.bind(plans.append))
assert binding.is_bound and len(plans) == 1
assert lines > 40, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)


def test_while_the_first_plan_is_made(tmp_path: Path, nvml: Nvml) -> None:
    """The same before a framework's import: nothing is half-set, the next import plans."""
    program = """
import gpuconf.machine.cards.cuda_driver  # its own import is not the point
lines = at_every_line(binding.prepare)
assert gpuconf.activation().plan is not None and lines > 40, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)


def test_while_another_profile_is_read(tmp_path: Path, nvml: Nvml) -> None:
    """Another profile that is interrupted on its way leaves the one before active."""
    program = """
lines = at_every_line(lambda: gpuconf.configure("cpu-only"))
assert gpuconf.activation().profile == "cpu-only" and lines > 10, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)
