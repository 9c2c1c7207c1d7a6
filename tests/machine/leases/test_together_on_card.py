"""Programs that start at the same moment on one GPU, with real TensorFlow: none over-commits.

On the simulated GPU, whose driver refuses memory that is not there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, CardSpec, simulated_card
from gpuconf.simcard.card import FILE_VARIABLE, PROCESSES
from tests.programs import warm
from tests.programs.processes import Program, Start, run_with

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("together.py")
FREE = 9319
WAITS = "waiting for memory"


Begin = Callable[..., list[Program]]


@pytest.fixture
def begin(start: Start, tmp_path: Path) -> Begin:
    """Start programs; each has imported TensorFlow when this returns, and none has its limit."""

    def begin_all(card: Card, rules: str, count: int, *words: str) -> list[Program]:
        profile = tmp_path / "profile.yaml"
        profile.write_text(rules, encoding="utf-8")
        environ = {**card.environment(os.environ), warm.VARIABLE: "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        for name in ("CUDA_VISIBLE_DEVICES", "GPUCONF_STATE"):
            environ.pop(name, None)
        command = [sys.executable, str(PROGRAM), *words]
        programs = [
            start(command, {**environ, "GPUCONF_PROFILE": str(profile)}) for _ in range(count)
        ]
        for program in programs:
            program.read_values()
        return programs

    return begin_all


@pytest.fixture
def card() -> Iterator[Card]:
    """The story's GPU."""
    with simulated_card(CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB)) as made:
        yield made


def bound_at_once(programs: list[Program]) -> list[dict[str, Any]]:
    """What each got, all having asked at the same moment."""
    for program in programs:
        program.write_line()
    return [program.read_values() for program in programs]


def end(program: Program) -> None:
    """Kill it, and wait for its end."""
    program.kill()
    program.wait()


def taken(program: Program) -> object:
    """Where the program has put a tensor of nine tenths of its limit."""
    program.write_line()
    return program.read_values()["taken"]


def mib(answer: dict[str, Any]) -> int:
    """The limit of its first device."""
    return int(answer["limits"][0].split()[0])


def test_of_two_dedicated_ones_the_second_is_refused(card: Card, begin: Begin) -> None:
    """One has the GPU to itself, and the other learns who."""
    programs = begin(card, "extends: dedicated\n", 2)
    answers = bound_at_once(programs)
    winners = [each for each in answers if "limits" in each]
    losers = [each for each in answers if "shortage" in each]
    assert [mib(each) for each in winners] == [FREE - 1536]
    assert len(losers) == 1
    assert ": 9319 MiB reserved" in losers[0]["message"]
    assert "gpuconf ps" in losers[0]["message"]
    assert taken(programs[answers.index(winners[0])]) == "GPU:0"


def test_of_two_dedicated_ones_the_second_waits(card: Card, begin: Begin) -> None:
    """It waits in the queue, says who is before it, and has the whole GPU once the first ends."""
    programs = begin(card, "extends: dedicated\nmemory: {on_shortage: {wait: forever}}\n", 2)
    for program in programs:
        program.write_line()
    for _ in range(600):
        if any(WAITS in program.log for program in programs):
            break
        time.sleep(0.1)
    waits = next(each for each in programs if WAITS in each.log)
    first = next(each for each in programs if each is not waits)
    assert mib(first.read_values()) == FREE - 1536
    assert ": 9319 MiB reserved" in waits.log
    assert taken(first) == "GPU:0"
    end(first)
    assert mib(waits.read_values()) == FREE - 1536
    assert taken(waits) == "GPU:0"


def test_the_second_gets_what_is_left(card: Card, begin: Begin) -> None:
    """Where the profile is content with it: both limits fit the GPU, and both take them whole."""
    programs = begin(card, "memory: {memory_limit: 6GiB, at_least: 1GiB, context: 512MiB}\n", 2)
    answers = bound_at_once(programs)
    assert sorted(map(mib, answers)) == [FREE - (6144 + 512) - 512, 6144]
    assert [taken(program) for program in programs] == ["GPU:0", "GPU:0"]


def test_three_that_pick_the_most_free_spread_over_two_cards(begin: Begin) -> None:
    """Each sees what the others have been promised, though nobody has taken a byte yet."""
    rules = "gpus: {pick: most-free}\nmemory: {memory_limit: 3GiB, allow_growth: true}\n"
    with simulated_card(CardSpec(total_bytes=8192 * MIB, count=2)) as cards:
        programs = begin(cards, rules, 3)
        answers = bound_at_once(programs)
        places = [answer["gpus"][0] for answer in answers]
        assert sorted(places.count(each) for each in set(places)) == [1, 2]
        assert [mib(each) for each in answers] == [3072] * 3
        assert [taken(program) for program in programs] == ["GPU:0"] * 3


def test_who_only_lists_the_gpus_leases_none(card: Card, begin: Begin) -> None:
    """A launcher leaves them to its workers; if it computes after all, with what they have left."""
    rules = "extends: dedicated\nmemory: {at_least: 1GiB, context: 512MiB}\n"
    (launcher,) = begin(card, rules, 1, "lists")
    launcher.write_line()
    assert launcher.read_values() == {"count": 1}
    limited = "memory: {memory_limit: 6GiB, context: 512MiB}\n"
    (worker,) = begin(card, limited, 1)
    (answer,) = bound_at_once([worker])
    assert mib(answer) == 6144
    (late,) = bound_at_once([launcher])
    assert mib(late) == FREE - (6144 + 512) - 512
    assert [taken(worker), taken(launcher)] == ["GPU:0", "GPU:0"]


def test_a_limit_that_still_holds_stays(card: Card, begin: Begin) -> None:
    """Between the listing and the devices another has taken a part, which this one never had."""
    rules = "memory: {memory_limit: 4GiB, context: 512MiB}\n"
    (launcher,) = begin(card, rules, 1, "lists")
    launcher.write_line()
    launcher.read_values()
    bound_at_once(begin(card, "memory: {memory_limit: 2GiB, context: 512MiB}\n", 1))
    assert [mib(each) for each in bound_at_once([launcher])] == [4096]


@pytest.mark.parametrize("rules", ["extends: dedicated\n", "memory: {memory_limit: 2GiB}\n"])
def test_who_has_hidden_the_gpus_leases_none(rules: str, card: Card, begin: Begin) -> None:
    """It computes on the CPU, whatever others have taken meanwhile, and takes nothing from them."""
    (hidden,) = begin(card, "extends: dedicated\nmemory: {at_least: 1GiB}\n", 1, "lists", "hides")
    hidden.write_line()
    hidden.read_values()
    (other,) = begin(card, rules, 1)
    bound_at_once([other])
    assert [each["limits"] for each in bound_at_once([hidden])] == [[]]
    assert len(list(Path(f"{card.path}.leases").glob("*/lease.*"))) == 1
    assert taken(other) == "GPU:0"


def test_a_session_of_who_has_hidden_the_gpus_leases(card: Card, begin: Begin) -> None:
    """It sees them anyway."""
    rules = "memory: {memory_limit: 2GiB, context: 512MiB}\n"
    (hidden,) = begin(card, rules, 1, "lists", "hides", "session")
    hidden.write_line()
    hidden.read_values()
    bound_at_once([hidden])
    (lease,) = Path(f"{card.path}.leases").glob("*/lease.*")
    assert lease.name.endswith(f".{2560 * MIB}")


def test_what_the_program_has_set_since_it_listed_the_gpus(card: Card, begin: Begin) -> None:
    """It holds within the plan that another program's lease has made necessary."""
    rules = "extends: dedicated\nmemory: {at_least: 1GiB}\n"
    (program,) = begin(card, rules, 1, "lists", "splits")
    program.write_line()
    program.read_values()
    bound_at_once(begin(card, "memory: {memory_limit: 4GiB, context: 512MiB}\n", 1))
    assert [each["limits"] for each in bound_at_once([program])] == [["1000 MiB", "1000 MiB"]]


def test_a_tensorflow_that_lists_no_gpu_leases_nothing(card: Card, tmp_path: Path) -> None:
    """NVML is there, and CUDA's driver is not: the program computes on the CPU."""
    library = "libnvidia-ml.so.1"
    (tmp_path / library).symlink_to(card.libraries / library)
    environ = {**card.environment({}), **os.environ, "GPUCONF_PROFILE": "dedicated"}
    environ.update({"LD_LIBRARY_PATH": str(tmp_path), FILE_VARIABLE: str(card.path)})
    environ["GPUCONF_LEASES"] = str(tmp_path / "ledger")
    code = "import gpuconf.auto, tensorflow as tf; print(int(tf.reduce_sum(tf.ones([3]))))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
    assert done.stdout == "3\n"
    assert "TensorFlow lists none" in done.stderr
    assert list((tmp_path / "ledger").glob("*/lease.*")) == []


def test_this_test_can_fail(card: Card, begin: Begin) -> None:
    """Without leases both are promised the same memory, and one is refused what it was promised."""
    rules = "extends: dedicated\nmemory: {allow_growth: true, lease: false}\n"
    programs = begin(card, rules, 2)
    assert [mib(each) for each in bound_at_once(programs)] == [FREE - 1536] * 2
    outcomes = [taken(program) for program in programs]
    assert outcomes[0] == "GPU:0"
    assert str(outcomes[1]).startswith("refused")


@pytest.mark.parametrize("processes", PROCESSES)
def test_two_half_cards_share_whatever_the_driver_says_of_processes(
    processes: str, begin: Begin, tmp_path: Path
) -> None:
    """README's story natively, under WSL2, in a container and in a vGPU guest: two run, a third
    is refused, and when the first has ended there is room for one again, next to the second."""
    spec = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, processes=processes)
    with simulated_card(spec) as card:
        programs = begin(card, "extends: half-card\n", 2)
        for program in programs:
            assert [mib(each) for each in bound_at_once([program])] == [3942]
            assert taken(program) == "GPU:0"
        assert planned(card, tmp_path) == (1, None)
        end(programs[0])
        assert planned(card, tmp_path) == (0, 3942)


@pytest.mark.parametrize("processes", PROCESSES)
def test_two_run_side_by_side_by_default(processes: str, begin: Begin) -> None:
    """Under shared-desktop each has a gigabyte and its context for itself, and each may grow: the
    second leaves to the first what that has reserved and not used, and both take 2 GiB."""
    spec = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, processes=processes)
    with simulated_card(spec) as card:
        first, second = begin(card, "extends: shared-desktop\n", 2, "little")
        assert [mib(each) for each in bound_at_once([first])] == [7884]
        assert [mib(each) for each in bound_at_once([second])] == [FREE - 1664 - 512 - 640]
        assert [taken(each) for each in (second, first)] == ["GPU:0", "GPU:0"]


def test_a_limit_on_a_gpu_that_shares_the_hosts_memory(begin: Begin) -> None:
    """NVML reports no memory, as on a GB10: a third of the machine's, with a lease for it."""
    with open("/proc/meminfo", encoding="ascii") as file:
        total = int(file.readline().split()[1]) << 10
    with simulated_card(CardSpec(total_bytes=total, unified=True)) as card:
        (program,) = begin(card, "extends: half-card\nmemory: {at_least: null}\n", 1)
        (answer,) = bound_at_once([program])
        assert 0 < mib(answer) <= total * 0.35 / MIB
        (lease,) = Path(f"{card.path}.leases").rglob("lease.*")
        assert int(lease.name.rpartition(".")[2]) // MIB == mib(answer) + 640


def planned(card: Card, folder: Path) -> tuple[int, int | None]:
    """The exit code of `gpuconf plan half-card` in another process, and its limit in MiB."""
    command = [sys.executable, "-m", "gpuconf", "plan", "half-card", "--json"]
    done = run_with(command, card.environment(os.environ), folder)
    gpus = json.loads(done.stdout)["gpus"] if done.returncode == 0 else []
    return done.returncode, gpus[0]["limit_bytes"] // MIB if gpus else None
