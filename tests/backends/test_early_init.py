"""What makes TensorFlow's devices, and what does not: the lists of early_init.py, run for real."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.backends.tensorflow.early_init import EAGER_MAKERS, SILENT_MAKERS
from gpuconf.simcard import CardSpec, simulated_card
from tests.programs import warm
from tests.programs.processes import run

PROGRAM = Path(__file__).with_name("device_makers.py")


@pytest.mark.slow
def test_makers_make_and_the_others_do_not(tmp_path: Path) -> None:
    """Each call, alone in a forked process, leaves the evidence its list says it leaves."""
    with simulated_card(CardSpec()) as card:
        environ = card.environment({warm.VARIABLE: "1", "GPUCONF_SIMCARD_KERNELS": "error"})
        done = run([sys.executable, str(PROGRAM)], tmp_path, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stderr
    verdicts = dict(line.split() for line in done.stdout.splitlines() if line.startswith("call:"))
    made = {name for name, verdict in verdicts.items() if verdict == "eager"}
    silent = {name for name, verdict in verdicts.items() if verdict == "silent"}
    harmless = {name for name, verdict in verdicts.items() if verdict == "none"}
    names = {f"call:{name}" for name in EAGER_MAKERS}
    assert made <= names
    assert len(made) >= 25
    assert silent == {f"call:{name}" for name in SILENT_MAKERS - {"get_session"}}
    assert harmless == {"call:Dense", "call:Input", "call:set_seed", "call:list_physical_devices"}
