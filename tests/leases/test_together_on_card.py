"""Programs that start at the same moment on one card, with real TensorFlow: none over-commits.

On the simulated card, whose driver refuses memory that is not there.
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

from gpuconf.simcard import Card, CardSpec, simulated_card
from gpuconf.simcard.card import FILE_VARIABLE, PROCESSES
from gpuconf.units import MIB

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("together.py")
FREE = 9319
WAITS = "waiting for memory"


class Program:
    """One of them: ``imported``, then `bind`, then `take`, then `end`."""

    def __init__(self, card: Card, profile: str, folder: Path, *words: str) -> None:
        environ = {**card.environment(os.environ), "TF_CPP_MIN_LOG_LEVEL": "3"}
        for name in ("CUDA_VISIBLE_DEVICES", "GPUCONF_STATE"):
            environ.pop(name, None)
        self.errors = folder / f"stderr{len(list(folder.iterdir()))}"
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *words],
                env={**environ, "GPUCONF_PROFILE": profile},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
            )

    def next_step(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The line that it prints next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.said()
        found: dict[str, Any] = json.loads(line)
        return found

    def said(self) -> str:
        """What it wrote to stderr."""
        return self.errors.read_text(encoding="utf-8")

    def end(self) -> None:
        """Let it end, if it still runs."""
        self._process.kill()
        self._process.communicate()


Start = Callable[..., list[Program]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start programs; each has imported TensorFlow when this returns, and none has bound."""
    programs: list[Program] = []
    folder = tmp_path / "programs"
    folder.mkdir()

    def begin(card: Card, rules: str, count: int, *words: str) -> list[Program]:
        profile = tmp_path / "profile.yaml"
        profile.write_text(rules, encoding="utf-8")
        new = [Program(card, str(profile), folder, *words) for _ in range(count)]
        programs.extend(new)
        for program in new:
            program.answer()
        return new

    yield begin
    for program in programs:
        program.end()


@pytest.fixture
def card() -> Iterator[Card]:
    """The story's card."""
    with simulated_card(CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB)) as made:
        yield made


def bound_at_once(programs: list[Program]) -> list[dict[str, Any]]:
    """What each got, all having asked at the same moment."""
    for program in programs:
        program.next_step()
    return [program.answer() for program in programs]


def taken(program: Program) -> object:
    """Where the program has put a tensor of nine tenths of its limit."""
    program.next_step()
    return program.answer()["taken"]


def mib(answer: dict[str, Any]) -> int:
    """The limit of its first device."""
    return int(answer["limits"][0].split()[0])


def test_of_two_dedicated_ones_the_second_is_refused(card: Card, start: Start) -> None:
    """One has the card to itself, and the other learns who."""
    programs = start(card, "extends: dedicated\n", 2)
    answers = bound_at_once(programs)
    winners = [each for each in answers if "limits" in each]
    losers = [each for each in answers if "shortage" in each]
    assert [mib(each) for each in winners] == [FREE - 1536]
    assert len(losers) == 1
    assert ": 9319 MiB reserved" in losers[0]["message"]
    assert "gpuconf ps" in losers[0]["message"]
    assert taken(programs[answers.index(winners[0])]) == "GPU:0"


@pytest.mark.nightly
def test_of_two_dedicated_ones_the_second_waits(card: Card, start: Start) -> None:
    """It waits in line, says who is before it, and has the whole card once the first ends."""
    programs = start(card, "extends: dedicated\nmemory: {on_shortage: {wait: forever}}\n", 2)
    for program in programs:
        program.next_step()
    for _ in range(600):
        if any(WAITS in program.said() for program in programs):
            break
        time.sleep(0.1)
    waits = next(each for each in programs if WAITS in each.said())
    first = next(each for each in programs if each is not waits)
    assert mib(first.answer()) == FREE - 1536
    assert ": 9319 MiB reserved" in waits.said()
    assert taken(first) == "GPU:0"
    first.end()
    assert mib(waits.answer()) == FREE - 1536
    assert taken(waits) == "GPU:0"


def test_the_second_gets_what_is_left(card: Card, start: Start) -> None:
    """Where the profile is content with it: both limits fit the card, and both take them whole."""
    programs = start(card, "memory: {memory_limit: 6GiB, at_least: 1GiB, context: 512MiB}\n", 2)
    answers = bound_at_once(programs)
    assert sorted(map(mib, answers)) == [FREE - (6144 + 512) - 512, 6144]
    assert [taken(program) for program in programs] == ["GPU:0", "GPU:0"]


@pytest.mark.nightly
def test_three_that_pick_the_most_free_spread_over_two_cards(start: Start) -> None:
    """Each sees what the others have been promised, though nobody has taken a byte yet."""
    rules = "gpus: {pick: most-free}\nmemory: {memory_limit: 3GiB, allow_growth: true}\n"
    with simulated_card(CardSpec(total_bytes=8192 * MIB, count=2)) as cards:
        programs = start(cards, rules, 3)
        answers = bound_at_once(programs)
        places = [answer["gpus"][0] for answer in answers]
        assert sorted(places.count(each) for each in set(places)) == [1, 2]
        assert [mib(each) for each in answers] == [3072] * 3
        assert [taken(program) for program in programs] == ["GPU:0"] * 3


def test_who_only_lists_the_gpus_leases_none(card: Card, start: Start) -> None:
    """A launcher leaves them to its workers; if it computes after all, with what they have left."""
    rules = "extends: dedicated\nmemory: {at_least: 1GiB, context: 512MiB}\n"
    (launcher,) = start(card, rules, 1, "lists")
    launcher.next_step()
    assert launcher.answer() == {"count": 1}
    limited = "memory: {memory_limit: 6GiB, context: 512MiB}\n"
    (worker,) = start(card, limited, 1)
    (answer,) = bound_at_once([worker])
    assert mib(answer) == 6144
    (late,) = bound_at_once([launcher])
    assert mib(late) == FREE - (6144 + 512) - 512
    assert [taken(worker), taken(launcher)] == ["GPU:0", "GPU:0"]


@pytest.mark.nightly
def test_a_limit_that_still_holds_stays(card: Card, start: Start) -> None:
    """Between the listing and the devices another has taken a part, which this one never had."""
    rules = "memory: {memory_limit: 4GiB, context: 512MiB}\n"
    (launcher,) = start(card, rules, 1, "lists")
    launcher.next_step()
    launcher.answer()
    bound_at_once(start(card, "memory: {memory_limit: 2GiB, context: 512MiB}\n", 1))
    assert [mib(each) for each in bound_at_once([launcher])] == [4096]


def test_who_has_hidden_the_gpus_leases_none(card: Card, start: Start) -> None:
    """It computes on the CPU, whatever others have taken meanwhile, and takes nothing from them."""
    (hidden,) = start(card, "extends: dedicated\nmemory: {at_least: 1GiB}\n", 1, "lists", "hides")
    hidden.next_step()
    hidden.answer()
    (other,) = start(card, "extends: dedicated\n", 1)
    bound_at_once([other])
    assert [each["limits"] for each in bound_at_once([hidden])] == [[]]
    assert len(list(Path(f"{card.path}.leases").glob("*/lease.*"))) == 1
    assert taken(other) == "GPU:0"


@pytest.mark.nightly
def test_a_session_of_who_has_hidden_the_gpus_leases(card: Card, start: Start) -> None:
    """It sees them all the same."""
    rules = "memory: {memory_limit: 2GiB, context: 512MiB}\n"
    (hidden,) = start(card, rules, 1, "lists", "hides", "session")
    hidden.next_step()
    hidden.answer()
    bound_at_once([hidden])
    (lease,) = Path(f"{card.path}.leases").glob("*/lease.*")
    assert lease.name.endswith(f".{2560 * MIB}")


def test_what_the_program_has_set_since_it_listed_the_gpus(card: Card, start: Start) -> None:
    """It holds within the plan that another program's lease has made necessary."""
    rules = "extends: dedicated\nmemory: {at_least: 1GiB}\n"
    (program,) = start(card, rules, 1, "lists", "splits")
    program.next_step()
    program.answer()
    bound_at_once(start(card, "memory: {memory_limit: 4GiB, context: 512MiB}\n", 1))
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


def test_this_test_can_fail(card: Card, start: Start) -> None:
    """Without leases both are promised the same memory, and one is refused what it was promised."""
    rules = "extends: dedicated\nmemory: {allow_growth: true, lease: false}\n"
    programs = start(card, rules, 2)
    assert [mib(each) for each in bound_at_once(programs)] == [FREE - 1536] * 2
    outcomes = [taken(program) for program in programs]
    assert outcomes[0] == "GPU:0"
    assert str(outcomes[1]).startswith("refused")


@pytest.mark.parametrize("processes", PROCESSES)
def test_two_half_cards_share_whatever_the_driver_says_of_processes(
    processes: str, start: Start, tmp_path: Path
) -> None:
    """README's story natively, under WSL2, in a container and in a vGPU guest: two run, a third
    is refused, and when the first has ended there is room for one again, beside the second."""
    spec = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, processes=processes)
    with simulated_card(spec) as card:
        programs = start(card, "extends: half-card\n", 2)
        for program in programs:
            assert [mib(each) for each in bound_at_once([program])] == [3942]
            assert taken(program) == "GPU:0"
        assert planned(card, tmp_path) == (1, None)
        programs[0].end()
        assert planned(card, tmp_path) == (0, 3942)


def test_two_run_side_by_side_by_default(card: Card, start: Start) -> None:
    """Under shared-desktop each has a gigabyte and its context for itself, and each may grow: the
    second leaves to the first what that has reserved and not used, and both take 2 GiB."""
    first, second = start(card, "extends: shared-desktop\n", 2, "little")
    assert [mib(each) for each in bound_at_once([first])] == [7884]
    assert [mib(each) for each in bound_at_once([second])] == [FREE - 1664 - 512 - 640]
    assert [taken(each) for each in (second, first)] == ["GPU:0", "GPU:0"]


def test_a_limit_on_a_gpu_that_shares_the_hosts_memory(start: Start) -> None:
    """NVML reports no memory, as on a GB10: a third of the machine's, with a lease for it."""
    with open("/proc/meminfo", encoding="ascii") as file:
        total = int(file.readline().split()[1]) << 10
    with simulated_card(CardSpec(total_bytes=total, unified=True)) as card:
        (program,) = start(card, "extends: half-card\nmemory: {at_least: null}\n", 1)
        (answer,) = bound_at_once([program])
        assert 0 < mib(answer) <= total * 0.35 / MIB
        (lease,) = Path(f"{card.path}.leases").rglob("lease.*")
        assert int(lease.name.rpartition(".")[2]) // MIB == mib(answer) + 640


def planned(card: Card, folder: Path) -> tuple[int, int | None]:
    """The exit code of `gpuconf plan half-card` in another process, and its limit in MiB."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuconf", "plan", "half-card", "--json"],
        env=card.environment(os.environ),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    gpus = json.loads(done.stdout)["gpus"] if done.returncode == 0 else []
    return done.returncode, gpus[0]["limit_bytes"] // MIB if gpus else None
