"""What a program has reserved stays its own, however others grow: real frameworks take it."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, CardSpec, simulated_card
from tests.programs.fixtures import build_skip_waits
from tests.programs.on_card import environment_on
from tests.programs.processes import Program, Start

pytestmark = pytest.mark.slow(seconds=30)

PROGRAM = Path(__file__).with_name("grower.py")
SPEC = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB)
# One program may take all but the other's context: PyTorch has none on the simulated GPU.
RULES = """
extends: shared-desktop
memory: {hold: %s, keep_free: 0B, per_process_gpu_memory_fraction: 1, context: 500MiB}
"""
RESERVE = 1024  # MiB, of shared-desktop
SCHEDULES = int(os.environ.get("SCHEDULES", "200"))

Grow = Callable[[Card, str, str], Program]


@pytest.fixture
def grower(start: Start, tmp_path: Path) -> Grow:
    """``grower(card, framework, hold)``: the program, with its framework imported."""
    library = build_skip_waits(tmp_path)

    def begin(card: Card, framework: str, hold: str) -> Program:
        profile = tmp_path / f"{hold}.yaml"
        profile.write_text(RULES % hold, encoding="utf-8")
        wheels = () if framework == "tensorflow" else (framework,)
        environ = {**environment_on(card, wheels), "GPUCONF_PROFILE": str(profile)}
        environ.update({"TF_CPP_MIN_LOG_LEVEL": "3", "LD_PRELOAD": library})
        program = start([sys.executable, str(PROGRAM), framework], environ)
        assert program.read_line() == "ready"
        return program

    return begin


def asked(program: Program, line: object) -> str:
    program.write_line(str(line))
    return program.read_line()


@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
@pytest.mark.parametrize(("hold", "is_whole"), [("null", True), ("false", False)])
def test_an_earlier_program_leaves_a_later_one_its_reserve(
    framework: str, hold: str, is_whole: bool, grower: Grow
) -> None:
    """Both begin with 64 MiB, and the first grows until it is refused; with a lease only, it also
    takes what the second has reserved.  A line tells the second who uses the rest."""
    with simulated_card(SPEC) as card:
        first, second = programs = [grower(card, framework, hold) for _ in range(2)]
        for program in programs:
            assert [asked(program, line) for line in ("begin", 64)] == ["begun", "ok"]
        while asked(first, 64) == "ok":
            pass
        later = Counter(asked(second, 64) for _ in range(RESERVE // 64 - 1))
        assert (later["ok"] == RESERVE // 64 - 1) is is_whole
        if is_whole:
            assert asked(second, -4096) == "ended"
            (line,) = [each for each in second.log.splitlines() if "above a reservation" in each]
            assert ": 1524 MiB reserved, " in line
            assert " MiB in use. This process uses 1" in line


@pytest.mark.nightly
@pytest.mark.parametrize("hold", ["true", "false"])
def test_no_schedule_of_growth_takes_a_reserve(hold: str, grower: Grow) -> None:
    """Two or three programs of either framework grow in random steps, and begin at random times:
    what keeps a program within its reserve is never refused.  With a lease only, it is."""
    outcomes: Counter[str] = Counter()
    broken = []
    with simulated_card(SPEC) as card:
        frameworks = ("tensorflow", "torch", "tensorflow", "torch", "torch", "tensorflow")
        growers = [grower(card, framework, hold) for framework in frameworks]
        for seed in range(SCHEDULES if hold == "true" else 10):
            rng = random.Random(seed)
            programs = rng.sample(growers, rng.choice([2, 3]))
            held = dict.fromkeys(programs, 0)
            assert {asked(program, "begin") for program in programs} == {"begun"}
            # Tensors of one size, of which a reserve has whole ones: BFC would waste more.
            sizes = {program: rng.choice([16, 64, 128, 256]) for program in programs}
            pace = {program: rng.random() ** 3 for program in programs}
            growing = list(programs)
            while growing:
                (program,) = rng.choices(growing, [pace[each] for each in growing])
                mib = sizes[program]
                is_own = held[program] + mib <= RESERVE
                answer = asked(program, mib)
                outcomes[answer] += 1
                if is_own and answer == "refused":
                    broken.append((seed, frameworks[growers.index(program)], held[program], mib))
                held[program] += mib if answer == "ok" else 0
                if answer != "ok":
                    growing.remove(program)
            assert [asked(program, "end") for program in programs] == ["ended"] * len(programs)
    assert outcomes["refused"] > len(broken)
    assert (not broken) is (hold == "true"), (broken, outcomes)
