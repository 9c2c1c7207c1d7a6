"""Every way of starting a worker × the card's states: each has the limit of its own moment.

Real TensorFlow on the simulated card, without the kernel bridge: with it, importing TensorFlow
starts CUDA, which it does not on a real card.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconf.simcard import CardSpec, simulated_card
from gpuconf.simcard.card import Card
from gpuconf.units import MIB

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("binding_children.py")
TOTAL = 11264
# What the desktop holds, in MiB: as the program starts; and when each child makes its devices.
AT_START = 1945
STATES = {"room": 5000, "full": 10900, "full, then free": 7000}
# What is free then, less the 512 MiB of keep_free and the 640 MiB of a context.
LIMITS = {"room": "5112", "full": "ShortageError", "full, then free": "3112"}
WAITING = "extends: shared-desktop\nmemory: {on_shortage: {wait: 1min}}\n"


@pytest.fixture
def card() -> Iterator[Card]:
    """A card with room."""
    spec = CardSpec(total_bytes=TOTAL * MIB, used_bytes=AT_START * MIB)
    with simulated_card(spec) as made:
        yield made


class Family:
    """The program, started; its children one after the other."""

    def __init__(self, way: str, card: Card, folder: Path) -> None:
        environ = {**card.environment(os.environ), "TF_CPP_MIN_LOG_LEVEL": "3"}
        for name in ("CUDA_VISIBLE_DEVICES", "GPUCONF_STATE", "GPUCONF_PROFILE"):
            environ.pop(name, None)
        self._log = folder / "stderr.txt"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), way],
                env=environ,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._line("READY")

    def outcome(self, profile: str = "") -> str:
        """What becomes of a child, under ``profile`` from now on if it is named."""
        assert self._process.stdin is not None
        print(profile, file=self._process.stdin, flush=True)
        return self._line("OUTCOME")

    def wait_until_said(self, text: str) -> None:
        """Until ``text`` stands on its stderr."""
        deadline = time.monotonic() + 60
        while text not in self._log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)

    def end(self) -> None:
        """Close its input, and wait for its end."""
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0, self._log.read_text()

    def _line(self, head: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(head):
                return line.removeprefix(head).strip()
        raise AssertionError(f"no {head}: {self._process.wait()} {self._log.read_text()}")


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver", "os.fork", "subprocess", "loky"])
def test_each_child_has_the_limit_of_its_moment(way: str, card: Card, tmp_path: Path) -> None:
    """Room: what a plan gives now. Full: ShortageError. Full and then free: it waits for that.

    The profile that waits is a relative path, set after our line, and children run elsewhere.
    """
    (tmp_path / "waiting.yaml").write_text(WAITING)
    family = Family(way, card, tmp_path)
    seen = {}
    for state in ("room", "full"):
        card.set_desktop_bytes(STATES[state] * MIB)
        seen[state] = family.outcome()

    def free() -> None:
        family.wait_until_said("waiting up to")
        card.set_desktop_bytes(STATES["full, then free"] * MIB)

    freeing = threading.Thread(target=free)
    freeing.start()
    seen["full, then free"] = family.outcome("./waiting.yaml")
    freeing.join()
    family.end()
    assert seen == LIMITS
