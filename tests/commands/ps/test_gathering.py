"""Who holds memory of a GPU, from the driver's list of processes and from a policy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.ps.gathering import policy_line
from gpuconf.machine.policy import Policy, Rule
from tests.machine.cards import standin
from tests.programs.processes import Nvml, run_python

_PROGRAM = """
import json
from gpuconf.basics.json_values import plain
from gpuconf.commands.ps.gathering import read_holdings
print(json.dumps(plain(read_holdings())["gpus"]))
"""
OURS = standin.Process(os.getpid())
STRANGERS = standin.Process(2**22 + 1, used_bytes=GIB)
CARD = standin.Card(standin.uuid(0), used=GIB)
LIMITS = "policy.yaml limits your programs together: gpuconf plan shows what it leaves"


def gpus_of(folder: Path, environ: dict[str, str]) -> list[dict[str, Any]]:
    """The GPUs of that machine."""
    gpus: list[dict[str, Any]] = json.loads(run_python(_PROGRAM, folder, environ=environ))
    return gpus


def test_ones_own_processes_come_first(tmp_path: Path, nvml: Nvml) -> None:
    """However little they hold; a use that is not known is no part of the bar."""
    machine = standin.Machine((CARD._replace(processes=(STRANGERS, OURS)),))
    (gpu,) = gpus_of(tmp_path, nvml(machine))
    assert [each["pid"] for each in gpu["processes"]] == [OURS.pid, STRANGERS.pid]
    assert (gpu["bar"]["ours_bytes"], gpu["bar"]["others_bytes"]) == (0, GIB)


def test_memory_that_no_listed_process_holds(tmp_path: Path, nvml: Nvml) -> None:
    """What is left of the GPU's use; unknown where the driver lists no process, or no size.

    The parts of the bar are the whole GPU anyway.
    """
    listed = CARD._replace(processes=(STRANGERS,))
    cards = (
        listed._replace(used=GIB + 300 * MIB),
        listed,
        listed._replace(used=0),  # the process ended after it was listed
        CARD._replace(processes=(OURS,)),
        CARD._replace(process_code=standin.NOT_SUPPORTED),
    )
    gpus = gpus_of(tmp_path, nvml(standin.Machine(cards)))
    assert [gpu["unlisted_bytes"] for gpu in gpus] == [300 * MIB, 0, 0, None, None]
    assert [sum(gpu["bar"].values()) for gpu in gpus] == [gpu["total_bytes"] for gpu in gpus]


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (None, None),
        (Policy("policy.yaml", ((), (), ())), None),  # its rules are for other users
        (Policy("policy.yaml", ((), (), (Rule(),))), None),
        (Policy("policy.yaml", ((), (), (Rule(gpus=1),))), LIMITS),
        (Policy("policy.yaml", problem="policy.yaml is ignored"), "policy.yaml is ignored"),
    ],
)
def test_a_policy_that_limits_this_user(policy: Policy | None, line: str | None) -> None:
    """One line; the reason instead where the file is ignored."""
    assert policy_line(policy) == line
