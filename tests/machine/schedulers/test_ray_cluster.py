"""The benchmark of a cluster in its smallest form: every share holds on GPUs of several nodes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.ray_shares import Check, Found, Layout, checks_of
from gpuconf.basics.units import MIB
from tests.commands.cli.commands import BUILT
from tests.programs.processes import run

pytestmark = pytest.mark.slow  # starts a cluster of Ray, and TensorFlow in each of its workers

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = Layout(nodes=2, actors=4)


@pytest.mark.nightly
def test_two_nodes_and_four_actors(tmp_path: Path) -> None:
    """All checks hold, which the command says and its exit code too."""
    words = ["-m", "benchmarks.ray_cluster", "--nodes", "2", "--actors", "4"]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    # Not what the session preloads into programs: Ray does not start with it.
    environ = {**BUILT, "PYTHONPATH": ":".join(filter(None, paths)), "LD_PRELOAD": ""}
    done = run([sys.executable, *words], tmp_path, environ=environ, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| actors with the limit of the formula | 4 | 4 |" in done.stdout
    assert "| processes on a card, and no actor of its node | 0 | 0 |" in done.stdout


def found(limits_mib: list[int], used_mib: int = 15000, stranger: int | None = None) -> Found:
    """Four actors, two on each GPU of 16384 and 16640 MiB; a process more on the first GPU."""
    actors = [
        {"pid": 10 + n, "node": n // 2, "limits_mib": [limit], "is_filled": True}
        for n, limit in enumerate(limits_mib)
    ]
    cards = {}
    for node in (0, 1):
        held = {10 + n: limits_mib[n] * MIB for n in (2 * node, 2 * node + 1)}
        if node == 0 and stranger is not None:
            held[stranger] = MIB
        total_bytes = LAYOUT.spec(node).total_bytes
        used_bytes = used_mib * MIB
        cards[node] = {"total_bytes": total_bytes, "used_bytes": used_bytes, "held_bytes": held}
    return Found(actors, cards)


RIGHT = [6784, 6784, 6912, 6912]  # 0.5 × (16384 - 1024 - 512) - 640, and 128 MiB more


@pytest.mark.parametrize(
    ("seen", "failing"),
    [
        (found(RIGHT), set()),
        (found([6785, *RIGHT[1:]]), {"actors with the limit of the formula"}),
        (
            found([8000, *RIGHT[1:]]),
            {"actors with the limit of the formula", "processes above limit + context (NVML)"},
        ),
        (found(RIGHT, used_mib=16000), {"GPUs whose sum leaves keep_free (NVML)"}),
        (found(RIGHT, stranger=12), {"processes on a card, and no actor of its node"}),
    ],
)
def test_each_check_can_fail(seen: Found, failing: set[str]) -> None:
    """What is wrong fails its check, and no other."""
    checks: list[Check] = checks_of(LAYOUT, seen)
    assert {each.what for each in checks if each.expected != each.found} == failing
