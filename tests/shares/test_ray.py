"""Real Ray, real TensorFlow, the simulated card: Ray's fractions hold, and reuse is noticed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run
from tests.shares import ray_programs as programs

pytestmark = pytest.mark.slow  # starts Ray, and TensorFlow in each of its workers

# 8 GiB, whose desktop holds 1 GiB.
_CARD = ("--total", "8192MiB", "--used", "1024MiB", "--context", "450MiB")


def ray_driver(
    folder: Path, program: str, *words: str, cards: int = 1, lease: bool = True
) -> dict[str, Any]:
    """What the program prints, run as the driver of a Ray of its own, on simulated cards."""
    profile = folder / "shared.yaml"
    profile.write_text(
        f"extends: shared-desktop\nmemory: {{context: 640MiB, lease: {str(lease).lower()}}}\n"
    )
    variables = {
        "RAY_AUTH_MODE": "disabled",
        "RAY_TMPDIR": "/tmp",  # sockets lie in it, whose paths may have 107 bytes
        "GPUCONF_PROFILE": str(profile),
    }
    python = [sys.executable, "-c", program, *words]
    simcard = [sys.executable, "-m", "gpuconf.simcard", "run", "--count", str(cards), *_CARD, "--"]
    done = run([*simcard, *python], folder, environ=variables, timeout_s=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def test_two_actors_are_capped_and_the_third_waits(tmp_path: Path) -> None:
    """Each of 0.4 gets 2022 MiB and not a byte of its neighbour's; Ray queues the third."""
    found = ray_driver(tmp_path, programs.ACTORS)
    assert found["two"] == [[2022], [2022]]
    assert found["too_much"] == ["ResourceExhaustedError"] * 2
    assert found["is_queued"]
    assert found["free"] > 8192 - 1024 - 2 * (2022 + 640)
    assert found["third"] == [2022]
    assert found["driver"] == 16.0


def test_tasks_of_all_kinds(tmp_path: Path) -> None:
    """Parts, none, whole ones, placement groups; a hook and variables of the user's own stay."""
    found = ray_driver(tmp_path, programs.TASKS, cards=2, lease=False)
    whole = int(0.7 * 8192)  # shared-desktop's own fraction is less than the whole share
    assert found["quarter"]["limits"] == [1024]
    assert found["none"]["limits"] == []
    assert found["two"]["limits"] == [whole, whole]
    assert found["half in a group"]["limits"] == [2688]
    assert found["one in a group"]["limits"] == [whole]
    assert {each["said"] for each in found.values()} == {None}
    assert all(found[name]["env"] == ["called", "1"] for name in ("quarter", "none", "two"))


def test_a_worker_used_again_for_another_share_is_noticed(tmp_path: Path) -> None:
    """An error with the cure, and not a wrong limit."""
    found = ray_driver(tmp_path, programs.REUSED)
    assert found["quarter"] == [1024]
    assert "limit was made for 0.25 of GPU 0, and Ray has assigned 0.5 of GPU 0" in found["said"]
    assert "max_calls=1" in found["said"]


def test_a_sweep_of_tune(tmp_path: Path) -> None:
    """Eight trials of a quarter: all finish with the hook, and without it some run out."""
    held = ray_driver(tmp_path, programs.SWEEP, "with", "8")
    assert held == {"limits": [1024] * 8, "errors": []}
    free = ray_driver(tmp_path, programs.SWEEP, "without", "4")
    assert free["errors"]
