"""What programs of tests about the binding begin with, and the machines they see."""

from __future__ import annotations

from pathlib import Path

from gpuconf.basics.units import MIB
from tests.machine.cards import standin
from tests.programs.processes import Nvml

CARD = standin.Card(standin.uuid(0), total=11264 * MIB, reserved=0, used=1945 * MIB)
ROOMY = standin.Machine((CARD,))
FULL = standin.Machine((CARD._replace(used=11000 * MIB),))
HALF = standin.Machine((CARD._replace(used=6000 * MIB),))
TWO = standin.Machine((CARD, CARD._replace(uuid=standin.uuid(1), used=100 * MIB)))

# What every program begins with: a framework next to it, other machines to look at, a bind.
START = """
import os, sys
import gpuconf.auto, gpuconf
from gpuconf.session import configure
from gpuconf.session.binding import FRESH_S
binding = configure._binding
plans = []
def bind():
    binding.bind(plans.append)
    return plans[-1].gpus[0].limit_bytes >> 20 if plans[-1].gpus else None
def machine(facts):
    os.environ["STANDIN_NVML"] = facts
def grow_old():
    binding._state = binding._state._replace(planned_at=binding._clock() - 2 * FRESH_S)
"""


def facts(nvml: Nvml, machine: standin.Machine) -> str:
    """The file that makes NVML see ``machine`` from now on."""
    return repr(nvml(machine)["STANDIN_NVML"])


def with_rules(folder: Path, memory: str) -> dict[str, str]:
    """The variable that chooses shared-desktop with these memory rules."""
    text = f"extends: shared-desktop\nmemory: {{{memory}}}\n"
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return {"GPUCONF_PROFILE": "./mine.yaml"}


INTERRUPT = """
import gpuconf.session.import_hook as import_hook
from tests.programs.interrupts import interruptions
HERE = os.path.dirname(gpuconf.__file__)
# What decides and may take its time.  binding.py also has what writes.
DECIDES = tuple(os.path.join(HERE, name) for name in (
    "planner/", "machine/", "session/plans.py", "session/waiting.py", "session/leasing.py",
    "profile/search.py", "profile/loading.py", "profile/chain.py"))

def state():
    made = gpuconf.activation()
    return (dict(os.environ), made, str(made), made.plan, binding.is_bound,
            binding.environment._has_own_note(), list(sys.meta_path),
            list(import_hook.hooks._hooks))

def at_every_line(function):
    before, count = state(), 0
    for number in interruptions(function, DECIDES, step=7):
        count += 1
        assert state() == before, (number, [
            (a, b) for a, b in zip(before, state()) if a != b])
    return count
"""
