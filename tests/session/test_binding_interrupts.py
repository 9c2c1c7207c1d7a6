"""KeyboardInterrupt at every line of what plans and binds: all or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.binding_programs import HALF, INTERRUPT, START, TWO, facts
from tests.programs.processes import Nvml, run_python


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_the_binding(tmp_path: Path, nvml: Nvml) -> None:
    """Environment, activation and hooks are as they were; the next try binds."""
    program = f"""
sys.stderr = open(os.devnull, "w")
import cupy
machine({facts(nvml, HALF)})
os.environ["GPUCONF_PROFILE"] = "half-card"
half = binding._state.load()
binding._state = binding._state._replace(load=lambda: half)  # read once: YAML takes its time
grow_old()
lines = at_every_line(lambda: binding.bind(plans.append))
assert binding.is_bound and gpuconf.activation().profile == "half-card"
assert lines > 800, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_the_planning(tmp_path: Path, nvml: Nvml) -> None:
    """The same before a framework's import: nothing is half-set, the next import plans."""
    program = """
sys.stderr = open(os.devnull, "w")
import gpuconf.planner, gpuconf.machine.cards.cuda_driver  # their own imports are not the point
lines = at_every_line(binding.prepare)
assert gpuconf.activation().plan is not None and lines > 800, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_configure(tmp_path: Path, nvml: Nvml) -> None:
    """Another profile that is interrupted on its way leaves the one before in force."""
    program = """
sys.stderr = open(os.devnull, "w")
lines = at_every_line(lambda: gpuconf.configure("cpu-only"))
assert gpuconf.activation().profile == "cpu-only" and lines > 600, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)
