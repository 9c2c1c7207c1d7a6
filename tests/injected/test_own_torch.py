"""The carried code for PyTorch, on a real one: its allocator on the simulated GPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.simcard import CardSpec, simulated_card
from tests.injected.injected_runs import SITE, UUID, card, variable
from tests.programs.on_card import environment_on
from tests.programs.processes import run_with

pytestmark = pytest.mark.slow

_LIMIT_BYTES = 778 * MIB

_PROGRAM = """
import torch
total = torch.cuda.mem_get_info()[1]
def limit():
    return round(torch.cuda.get_per_process_memory_fraction() * total)
def fits(size):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()
    return True
seen = [limit(), fits(LIMIT), fits(LIMIT + 1)]
torch.cuda.set_per_process_memory_fraction(0.9)
torch.cuda.memory.caching_allocator_enable(False)
seen += [limit(), fits(LIMIT + 1)]
torch.cuda.set_per_process_memory_fraction(0.0625)
print(seen + [limit()])
"""


def test_torch_is_held_to_the_byte(tmp_path: Path) -> None:
    """The run's limit, whatever the program sets; a smaller one of its own stays."""
    lease = tmp_path / "lease"
    lease.touch()
    plan = variable(card(limit_bytes=_LIMIT_BYTES), leases={UUID.format(0): str(lease)})
    with simulated_card(CardSpec(total_bytes=8 * GIB, used_bytes=GIB)) as simulated:
        environ = {**environment_on(simulated, ("torch",)), "GPUCONF_RUN": plan}
        environ["PYTHONPATH"] = f"{SITE}{os.pathsep}{environ['PYTHONPATH']}"
        program = _PROGRAM.replace("LIMIT", str(_LIMIT_BYTES))
        done = run_with([sys.executable, "-c", program], environ, tmp_path, timeout_s=300)
    held = [_LIMIT_BYTES, True, False, _LIMIT_BYTES, False, 512 * MIB]
    assert done.stdout == f"{held}\n", done.stderr
    assert "set_per_process_memory_fraction of cuda:0: requested 0.9, got" in done.stderr
    assert "caching_allocator_enable: requested off, which has no limit, got on" in done.stderr
