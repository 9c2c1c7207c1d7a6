"""The carried code for old TensorFlow, on the newest one: real devices on the simulated GPU.

`old_tensorflows.py` runs it on old ones, by hand.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.simcard import Card, CardSpec, simulated_card
from tests.injected.injected_runs import UUID, run_environment, variable
from tests.programs.processes import run_with

pytestmark = pytest.mark.slow

SHARE = (2048 + 0.5) / 8192  # which TensorFlow turns back into 2048 MiB
HERE = Path(__file__).parent
WHY = "profile half-card allows no more"


@pytest.fixture(scope="module")
def eight_gib() -> Iterator[Card]:
    """An 8 GiB GPU, of which the desktop has 1."""
    with simulated_card(CardSpec(total_bytes=8 * GIB, used_bytes=1 * GIB)) as made:
        yield made


def run(program: str, card: Card, folder: Path, **plan: Any) -> tuple[dict[str, Any], str]:
    """What the program saw, and what it and the run said on stderr."""
    lease = folder / "lease"
    lease.touch()
    text = variable(leases={UUID.format(0): str(lease)}, **plan)
    environ = card.environment(run_environment(None, os.environ["PYTHONPATH"]))
    environ["GPUCONF_RUN"] = text  # which the GPU's environment leaves out
    done = run_with([sys.executable, str(HERE / program)], environ, HERE, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    return json.loads(line.removeprefix("SEEN ")), done.stderr


def lines_of(program: str, *texts: str) -> list[str]:
    """``program.py:4`` for the line of the program with each of ``texts``."""
    lines = (HERE / program).read_text(encoding="utf-8").splitlines()
    return [
        f"{program}:{next(n for n, line in enumerate(lines, start=1) if text in line)}"
        for text in texts
    ]


def test_eager_tensorflow_is_held(eight_gib: Card, tmp_path: Path) -> None:
    """The limit is there when GPUs are listed, whatever the program sets; a place with devices.

    It is read from the allocator: to try it takes TensorFlow ten seconds.
    """
    seen, said = run("eager_program.py", eight_gib, tmp_path)
    code, text = seen.pop("place with devices")
    assert (code, "--processes 2 -- ..." in text) == (1, True)
    assert seen == {
        "loader": "SourceFileLoader",  # its own
        "full guards": False,
        "own modules": True,
        "limit when listed": [2048],
        "growth": True,
        "scaled": [1536, 512],
        "smaller": [512],
        "place before devices": 0,
        "listed": [2048 * MIB],
        "session": [2048 * MIB],
    }
    ours = [line.removeprefix("gpuconf: ") for line in said.splitlines() if ": requested " in line]
    growth, logical, session = lines_of(
        "eager_program.py", "growth(gpu, False)", "kind(3072)", "v1.Session("
    )
    assert ours == [
        f"{growth}: requested set_memory_growth False, got True: profile half-card sets "
        "allow_growth",
        f"{logical}: requested memory_limit 3072 + 1024 MiB, got 1536 + 512 MiB: {WHY}",
        f"{session}: requested per_process_gpu_memory_fraction 0.9 (7372 MiB), "
        f"got 0.25 (2048 MiB): {WHY}",
    ]


def test_sessions_are_held(eight_gib: Card, tmp_path: Path) -> None:
    """Sessions of every kind and a server get the plan's share at most; one process a place."""
    seen, said = run("graph_program.py", eight_gib, tmp_path)
    name, text = seen.pop("no place")
    assert (name, "--processes 2 -- ..." in text) == ("NoPlaceError", True)
    assert abs(seen.pop("limit") - 2048 * MIB) < MIB
    assert seen == {
        **dict.fromkeys(("0.9", "interactive", "monitored", "server"), SHARE),
        "0.1": 0.1,
        "hidden": [],
        "default": [[2048]],
        "virtual": [1536, 512],
        "without GPU": SHARE,
        "a mistake": "TypeError",
    }
    assert said.count(": requested ") == 5
    (line,) = lines_of("graph_program.py", "config(0.9)")
    asked = "requested per_process_gpu_memory_fraction 0.9 (7372 MiB), got 0.25 (2048 MiB)"
    assert f"gpuconf: {line}: {asked}: {WHY}\n" in said
