"""The shipped profiles: they load, and the numbers in their comments are true.

The GPU of the story: 11264 MiB, of which the desktop uses 1945.  What no limit covers, the
context, is 640 MiB of it for each process, unless the profile says otherwise.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.planner import GpuPlan
from gpuconf.planner.limits import plan_gpu
from gpuconf.profile import Profile, load_profile
from gpuconf.profile.files import shipped_folder
from gpuconf.profile.model import GpuRules

TOTAL, DESKTOP, CONTEXT = 11264, 1945, 640
NAMES = sorted(file.stem for file in Path(shipped_folder()).glob("*.yaml"))


def load(name: str) -> Profile:
    return load_profile(name, environ={}, directory="/")


def planned(name: str, free_mib: int, total_mib: int = TOTAL) -> GpuPlan:
    """What the planner makes of the profile on a GPU of the story's generation."""
    profile = load(name)
    free_bytes, total_bytes = free_mib * MIB, total_mib * MIB
    gpu = Gpu(0, total_bytes=total_bytes, free_bytes=free_bytes, compute_capability=(8, 6))
    return plan_gpu(gpu, GpuRules(profile.memory, profile.virtual_devices))


def limit_mib(name: str, free_mib: int, total_mib: int = TOTAL) -> int:
    return (planned(name, free_mib, total_mib).limit_bytes or 0) // MIB


def lease_mib(name: str, free_mib: int) -> int:
    return (planned(name, free_mib).lease_bytes or 0) // MIB


def at_least_mib(name: str) -> int:
    amount = load(name).memory.at_least
    return (amount.of(TOTAL * MIB) or 0) // MIB if amount else 0


def comments(name: str) -> str:
    text = Path(shipped_folder(), f"{name}.yaml").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))


@pytest.mark.parametrize("name", NAMES)
def test_each_loads_and_says_whom_it_is_for(name: str) -> None:
    """A description for the list; in the comments, the audience and the reason of the numbers."""
    profile = load(name)
    assert profile.name == name
    assert profile.description
    assert re.search(r"^# For ", comments(name), re.MULTILINE)
    assert re.search("Why (these numbers|not)|There are no numbers", comments(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cpu-only"])
def test_each_runs_on_the_crowded_card(name: str) -> None:
    """On the story's GPU each has a limit without a shortage."""
    made = planned(name, TOTAL - DESKTOP)
    limit = limit_mib(name, TOTAL - DESKTOP)
    assert limit >= max(at_least_mib(name), 1)
    assert limit + CONTEXT + DESKTOP <= TOTAL
    assert made.shortage is None


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("shared-desktop", 7884),
        ("virtual-pair", 7884),
        ("keras-v1-session", 7884),
        ("dedicated", 7783),
        ("half-card", 3942),
        ("notebook", 4505),
    ],
)
def test_the_limits_in_the_comments(name: str, limit: int) -> None:
    """The figures that the comments work out are those of the sum."""
    assert limit_mib(name, TOTAL - DESKTOP) == limit
    assert str(limit) in comments(name) or name == "keras-v1-session"


def test_shared_desktop_is_the_rule_of_the_story() -> None:
    """Growth, 0.7 of the GPU, 512 MiB kept and 1 GiB at least, and a clear failure else."""
    memory = load("shared-desktop").memory
    assert memory.allow_growth is True
    assert memory.per_process_gpu_memory_fraction == 0.7
    assert (str(memory.keep_free), str(memory.at_least)) == ("512MiB", "1GiB")
    assert (memory.context, memory.lease) == (None, None)  # the GPU's, and on
    assert memory.on_shortage.action == "fail"


def test_a_second_shared_desktop_starts() -> None:
    """Each has reserved 1 GiB and a context, so that five fit, and a sixth is refused."""
    lease, free = lease_mib("shared-desktop", TOTAL - DESKTOP), TOTAL - DESKTOP
    limits = [limit_mib("shared-desktop", free - number * lease) for number in range(5)]
    assert (lease, limits) == (1664, [7884, 6503, 4839, 3175, 1511])
    assert limit_mib("shared-desktop", free - 5 * lease) < at_least_mib("shared-desktop")
    assert all(str(figure) in comments("shared-desktop") for figure in (lease, 6503, 8167))


def test_idle_notebooks_leave_the_next_one_its_limit() -> None:
    """Three have their share of 4505, because each reserves a part only."""
    lease, free = lease_mib("notebook", TOTAL - DESKTOP), TOTAL - DESKTOP
    limits = [limit_mib("notebook", free - number * lease) for number in range(4)]
    assert (lease, limits) == (1664, [4505, 4505, 4505, 3175])
    assert all(str(figure) in comments("notebook") for figure in (lease, 6503, 4505))


def test_two_half_cards_fit_beside_the_desktop_at_full_use() -> None:
    """Two limits, two contexts and the desktop are no more than the GPU."""
    first = limit_mib("half-card", TOTAL - DESKTOP)
    left = TOTAL - DESKTOP - first - CONTEXT
    assert left == 4737
    second = limit_mib("half-card", left)
    assert second == first
    together = first + second + 2 * CONTEXT + DESKTOP
    assert together == 11109 <= TOTAL
    too_much = int(0.4 * TOTAL) * 2 + 2 * CONTEXT + DESKTOP
    assert too_much > TOTAL
    figures = (first + CONTEXT, left, left - 128 - CONTEXT, together, TOTAL - together)
    assert all(str(figure) in comments("half-card") for figure in figures)


def test_a_third_half_card_is_told_that_there_is_no_room() -> None:
    """Its limit is below at_least, so it is a shortage, not an OOM."""
    used = DESKTOP + 2 * (limit_mib("half-card", TOTAL - DESKTOP) + CONTEXT)
    assert limit_mib("half-card", TOTAL - used) < at_least_mib("half-card")


def test_dedicated_takes_the_card_but_its_context() -> None:
    """Nothing is kept for others, and the context is as large as TensorFlow's own reserve."""
    memory = load("dedicated").memory
    assert (memory.keep_free, str(memory.context)) == (None, "1536MiB")
    assert lease_mib("dedicated", TOTAL - DESKTOP) == TOTAL - DESKTOP


def test_dedicated_refuses_a_card_that_is_not() -> None:
    """With half of the GPU in other hands, less than half is left."""
    assert limit_mib("dedicated", TOTAL // 2) < at_least_mib("dedicated")


def test_small_laptop_bounds_the_cudnn_workspace() -> None:
    """TensorFlow's own bound, 4 GiB, is the whole GPU; 4096 MiB with 500 used leave 2828."""
    assert load("small-laptop").tensorflow.cudnn_workspace_limit == 256 * MIB
    assert limit_mib("small-laptop", 4096 - 500, 4096) == 2828


def test_the_others_do_what_their_names_say() -> None:
    """Two halves, a graph session, no GPU, and growth for notebooks."""
    assert [str(device) for device in load("virtual-pair").virtual_devices] == ["50%", "50%"]
    assert load("keras-v1-session").tensorflow.session == "graph"
    assert load("keras-v1-session").memory.per_process_gpu_memory_fraction == 0.7
    assert load("cpu-only").gpus.kind == "none"
    assert load("notebook").memory.allow_growth is True
