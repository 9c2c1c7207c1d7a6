"""Real Ray, real TensorFlow, the simulated GPU: Ray's fractions hold, and reuse is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.machine.schedulers import ray_programs as programs
from tests.machine.schedulers.ray_card import run_driver

pytestmark = pytest.mark.slow(seconds=60)  # starts Ray, and TensorFlow in each of its workers


def ray_driver(folder: Path, program: str, *, cards: int = 1, lease: bool = True) -> dict[str, Any]:
    """What the program prints, run as the driver of a Ray of its own, on simulated GPUs."""
    done = run_driver(folder, ["-c", program], cards=cards, lease=lease)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def test_two_actors_are_capped_and_the_third_waits(tmp_path: Path) -> None:
    """Each of 0.4 gets 2022 MiB and not a byte of its neighbor's; Ray queues the third."""
    found = ray_driver(tmp_path, programs.ACTORS)
    assert found["two"] == [[2022], [2022]]
    assert found["too_much"] == ["ResourceExhaustedError"] * 2
    assert found["is_queued"]
    assert found["free"] > 8192 - 1024 - 2 * (2022 + 640)
    assert found["third"] == [2022]
    assert found["driver"] == 16.0


@pytest.mark.nightly
def test_tasks_of_all_kinds(tmp_path: Path) -> None:
    """Parts, none, whole ones, placement groups; also from a hook of the user's own."""
    found = ray_driver(tmp_path, programs.TASKS, cards=2, lease=False)
    whole = int(0.7 * 8192)  # shared-desktop's own fraction is less than the whole share
    assert found["quarter"]["limits"] == [1024]
    assert found["none"]["limits"] == []
    assert found["two"]["limits"] == [whole, whole]
    assert found["half in a group"]["limits"] == [2688]
    assert found["one in a group"]["limits"] == [whole]
    assert {each["said"] for each in found.values()} == {None}
    assert {each["hook"] for each in found.values()} == {"called"}


@pytest.mark.nightly
def test_a_worker_used_again_for_another_share_is_noticed(tmp_path: Path) -> None:
    """An error with the cure, and not a wrong limit."""
    found = ray_driver(tmp_path, programs.REUSED)
    assert found["quarter"] == [1024]
    assert "limit was set for 0.25 of GPU 0, but Ray has assigned 0.5 of GPU 0" in found["said"]
    assert "max_calls=1" in found["said"]


@pytest.mark.nightly
def test_with_leases_ray_and_others_leave_each_other_what_they_have_reserved(
    tmp_path: Path,
) -> None:
    """An actor, a program outside Ray, an actor: the third gets what the two leases leave."""
    found = ray_driver(tmp_path, programs.OUTSIDER)
    assert found["first"] == [2022]
    assert found["outside"] == 1536
    promised = (2022 + 640) + (1536 + 640)
    (second,) = found["second"]
    assert second == 8192 - 1024 - promised - 512 - 640
    assert sorted(found["leases"]) == sorted([2022 + 640, 1536 + 640, second + 640])


@pytest.mark.nightly
def test_a_size_becomes_a_part_whose_limit_is_the_size(tmp_path: Path) -> None:
    """The node's figures and the worker's limit are real."""
    found = ray_driver(tmp_path, programs.SIZES)
    assert found["found"] == {"num_gpus": 0.4039}
    (limit,) = found["limits"]
    assert limit == 2048
    assert found["said"] == "no node in the cluster has a GPU of type Q1 with known memory"
