"""Every way of starting a worker × the GPU's states: each has the limit of its own moment.

Real TensorFlow on the simulated GPU, without the kernel bridge: with it, importing TensorFlow
starts CUDA, which it does not on a real GPU.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import CardSpec, simulated_card
from gpuconf.simcard.card import Card
from tests.programs import warm
from tests.programs.card_clients import wait_until
from tests.programs.processes import Program, Start

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("binding_children.py")
TOTAL = 11264
# What the desktop holds, in MiB: as the program starts; and when each child initializes its GPUs.
AT_START = 1945
STATES = {"room": 5000, "full": 10900, "full, then free": 7000}
# What is free then, less the 512 MiB of keep_free and the 640 MiB of a context.
LIMITS = {"room": "5112", "full": "ShortageError", "full, then free": "3112"}
WAITING = "extends: shared-desktop\nmemory: {on_shortage: {wait: 1min}}\n"


@pytest.fixture
def card() -> Iterator[Card]:
    """A GPU with room."""
    spec = CardSpec(total_bytes=TOTAL * MIB, used_bytes=AT_START * MIB)
    with simulated_card(spec) as made:
        yield made


def start_family(way: str, card: Card, start: Start) -> Program:
    """The program, which starts its children one after the other."""
    environ = {**card.environment(os.environ), warm.VARIABLE: "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    for name in ("CUDA_VISIBLE_DEVICES", "GPUCONF_STATE", "GPUCONF_PROFILE"):
        environ.pop(name, None)
    family = start([sys.executable, str(PROGRAM), way], environ)
    read_after("READY", family)
    return family


def read_after(head: str, family: Program) -> str:
    """What follows ``head`` on the next line that begins with it."""
    while not (line := family.read_line()).startswith(head):
        pass
    return line.removeprefix(head).strip()


def outcome(family: Program, profile: str = "") -> str:
    """What becomes of a child, under ``profile`` from now on if it is named."""
    family.write_line(profile)
    return read_after("OUTCOME", family)


_AT_NIGHT = [pytest.param(way, marks=pytest.mark.nightly) for way in ("forkserver", "loky")]


@pytest.mark.parametrize("way", ["fork", "os.fork", "spawn", "subprocess", *_AT_NIGHT])
def test_each_child_has_the_limit_of_its_moment(
    way: str, card: Card, start: Start, tmp_path: Path
) -> None:
    """Room: what a plan gives now. Full: ShortageError. Full and then free: it waits for that.

    The profile that waits is named after our line, and children run elsewhere.
    A server of forks and joblib's workers begin as what spawn starts, and run at night.
    """
    (tmp_path / "waiting.yaml").write_text(WAITING)
    family = start_family(way, card, start)
    seen = {}
    for state in ("room", "full"):
        card.set_desktop_bytes(STATES[state] * MIB)
        seen[state] = outcome(family)

    def free() -> None:
        wait_until(lambda: "waiting up to" in family.log)
        card.set_desktop_bytes(STATES["full, then free"] * MIB)

    freeing = threading.Thread(target=free)
    freeing.start()
    seen["full, then free"] = outcome(family, str(tmp_path / "waiting.yaml"))
    freeing.join()
    family.communicate(timeout=60)
    assert family.returncode == 0, family.log
    assert seen == LIMITS
