"""The runner: whatever a program does, its end is told in time and nothing of it is left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconf.commands.demo.runner import ProgramDiedError, Runner
from tests.programs.processes import is_alive

# Each tells its process id first, so that a test can look for it afterwards.
PROGRAMS = {
    "sleeps.py": "import os, time; print(os.getpid(), flush=True); time.sleep(600)",
    "dies.py": "import os; print(os.getpid()); raise SystemExit(3)",
    "never_ends.py": "import os, time\n"
    "open(os.environ.get('PID_FILE', os.devnull), 'w').write(str(os.getpid()))\n"
    "print('RESULT', '{\"pid\": %d}' % os.getpid(), flush=True); time.sleep(600)",
    "trains.py": "import sys\n"
    "print('Epoch 1/2', flush=True); sys.stdin.read()\n"
    "print('RESULT', '{\"loss\": 1}')",
    "is_cut_off.py": "import time\nprint('RESULT {\"a\"', end='', flush=True); time.sleep(600)",
    "chatters.py": "import sys\n"
    "print('before ' * 100_000)\nprint('RESULT', '{\"a\": 1}', flush=True)\n"
    "print('after ' * 100_000, flush=True)\nsys.stdin.read()\nprint('the end')",
}

pytestmark = pytest.mark.slow  # programs that must be waited for


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner of the programs above that gives each of them a second and a half."""
    for name, source in PROGRAMS.items():
        (tmp_path / name).write_text(source + "\n")
    runner = Runner(sys.executable, os.environ, programs=(tmp_path,), timeout_s=1.5)
    yield runner
    runner.close()


def test_what_never_ends_is_killed(runner: Runner) -> None:
    """A program that sleeps for ever: killed in time, and the run says so."""
    started = time.monotonic()
    run = runner.run("sleeps.py")
    assert time.monotonic() - started < 10
    assert run.code == -9
    assert run.last_error == "TimeoutError: killed after 1.5 s"
    assert run.result is None
    assert not is_alive(int(run.log.split()[0]))


def test_holding_waits_no_longer_than_the_timeout(runner: Runner) -> None:
    """A program that never tells a RESULT: the body does not run, and the error tells why."""
    entered = False
    words = r"killed after 1\.5 s"
    with pytest.raises(ProgramDiedError, match=words) as caught, runner.holding("sleeps.py"):
        entered = True
    assert not entered
    assert not is_alive(int(caught.value.run.log.split()[0]))


def test_holding_notices_an_early_death(runner: Runner) -> None:
    """A program that fails before RESULT: an error at once, with its exit code."""
    with pytest.raises(ProgramDiedError, match=r"dies\.py ended \(exit code 3") as caught:
        runner.holding("dies.py").__enter__()
    assert caught.value.run.code == 3


def test_what_held_and_does_not_end_is_killed(runner: Runner) -> None:
    """The time that the body takes is not the program's; what it takes after that is."""
    with runner.holding("never_ends.py") as ended:
        time.sleep(2)
        assert ended == []
    assert ended[0].code == -9
    assert "killed after 1.5 s" in ended[0].log
    assert not is_alive((ended[0].result or {})["pid"])


def test_holding_begins_with_the_sign(runner: Runner) -> None:
    """With a sign of its own a program is held from there on; its RESULT may come at its end."""
    with runner.holding("trains.py", sign="Epoch 1/") as ended:
        assert ended == []
    assert (ended[0].code, ended[0].result) == (0, {"loss": 1})


def test_a_result_is_not_the_sign(runner: Runner) -> None:
    """A program that never gives its sign is an error, whatever else it tells."""
    with pytest.raises(ProgramDiedError) as caught:
        runner.holding("never_ends.py", sign="Epoch 1/").__enter__()
    assert not is_alive((caught.value.run.result or {})["pid"])


def test_a_lot_of_output_blocks_nobody(runner: Runner) -> None:
    """More than any pipe holds, before and after RESULT, and all of it is in the log."""
    with runner.holding("chatters.py") as ended:
        pass
    (run,) = ended
    assert (run.code, run.result) == (0, {"a": 1})
    assert run.log.count("before ") == run.log.count("after ") == 100_000
    assert run.log.endswith("the end\n")


def test_a_result_that_was_cut_off_is_none(runner: Runner) -> None:
    """Killed in the middle of its RESULT line, a program has told nothing."""
    run = runner.run("is_cut_off.py")
    assert (run.code, run.result) == (-9, None)
    assert run.log.endswith("\nTimeoutError: killed after 1.5 s\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_exception_leaves_no_child(runner: Runner, error: type[BaseException]) -> None:
    """^C or an error in the body: the program is dead when the exception comes out."""
    file = runner.folder / "pid"
    with pytest.raises(error), runner.holding("never_ends.py", PID_FILE=str(file)):
        raise error
    assert not is_alive(int(file.read_text()))
