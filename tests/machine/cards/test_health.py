"""A GPU's health, read by the real nvidia-ml-py from the stand-in for NVIDIA's library."""

from __future__ import annotations

import json
from pathlib import Path

from tests.machine.cards import standin
from tests.programs.processes import Nvml, run_python

_PROGRAM = """
import json
from gpuconf.machine.cards.health import read_inventory_and_health
inventory, health = read_inventory_and_health()
print(json.dumps([health[gpu.index]._asdict() for gpu in inventory.gpus]))
"""
SOUND = standin.Card(standin.uuid(0), ecc_mode=1)
FAILING = {
    "uncorrected_errors": (SOUND._replace(ecc_errors=3), 3),
    "remap_pending": (SOUND._replace(remap_pending=1), True),
    "remap_failed": (SOUND._replace(remap_failed=1), True),
    "compute_mode": (SOUND._replace(compute_mode=2), "prohibited"),
    "recovery": (SOUND._replace(recovery=2), "reboot"),
}


def test_each_sign_is_read_as_itself(tmp_path: Path, nvml: Nvml) -> None:
    """A GPU with one sign differs from a sound one in that field only."""
    cards = (SOUND, *(card for card, _ in FAILING.values()))
    answer = run_python(_PROGRAM, tmp_path, environ=nvml(standin.Machine(cards)))
    sound, *failing = json.loads(answer)
    assert len(failing) == len(FAILING)
    for found, (name, (_, value)) in zip(failing, FAILING.items(), strict=True):
        assert found == {**sound, name: value}
        assert found != sound


def test_a_field_with_an_error_is_unknown(tmp_path: Path, nvml: Nvml) -> None:
    """An older driver answers for a field that it does not know, but the value means nothing."""
    card, _ = FAILING["recovery"]
    older = standin.Machine((card,), driver="470.256.02")
    (health,) = json.loads(run_python(_PROGRAM, tmp_path, environ=nvml(older)))
    assert (health["compute_mode"], health["recovery"]) == ("default", None)
