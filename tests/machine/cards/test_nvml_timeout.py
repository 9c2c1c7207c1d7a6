"""NVML that hangs: a word after a while, and an end to the waiting, whatever the driver does."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from gpuconf.errors import UsageError
from gpuconf.machine.cards import nvml_timeout
from tests.machine.cards import standin
from tests.programs.processes import Nvml, Start, interruptible, run_with

pytestmark = pytest.mark.slow  # starts many programs

_READ = """
import os, sys, threading, time
from gpuconf.machine.cards.nvml import read_inventory
def timed():
    started = time.monotonic()
    inventory = read_inventory()
    return time.monotonic() - started, inventory
took_s, inventory = timed()
"""
_ANSWER = f"{_READ}print(inventory.problem, len(inventory.gpus))"


def _environ(machine: standin.Machine, nvml: Nvml, timeout_s: str) -> dict[str, str]:
    return {**os.environ, **nvml(machine), nvml_timeout.VARIABLE: timeout_s}


def _run(
    program: str, machine: standin.Machine, nvml: Nvml, timeout_s: str = "0.3"
) -> tuple[str, str]:
    """What a program of its own wrote to stdout and stderr; it must end within 20 s."""
    environ = _environ(machine, nvml, timeout_s)
    done = run_with([sys.executable, "-c", program], environ, timeout_s=20)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("machine", [standin.HANGS, standin.HANGS_AT_MEMORY])
def test_a_driver_that_hangs_is_a_sentence_and_the_program_ends(
    machine: standin.Machine, nvml: Nvml
) -> None:
    """At the start of NVML or at a question: the inventory says so, and exit does not wait."""
    started = time.monotonic()
    out, err = _run(_ANSWER, machine, nvml)
    assert out == "NVML did not respond within 0.3 s 0\n"
    assert not err
    assert time.monotonic() - started < 15


def test_a_line_is_said_after_two_seconds(nvml: Nvml) -> None:
    """Nobody waits in silence; the line names the variable that sets the time."""
    out, err = _run(_ANSWER, standin.HANGS, nvml, "2.5")
    assert out == "NVML did not respond within 2.5 s 0\n"
    assert err.startswith("gpuconf: NVML is not responding; waiting up to 2.5 s, then continuing")
    assert "GPUCONF_NVML_TIMEOUT" in err
    assert err.count("\n") == 1


def test_a_slow_driver_is_waited_for(nvml: Nvml) -> None:
    """An answer within the time is an answer, and nothing is said."""
    assert _run(_ANSWER, standin.HANGS_ONCE, nvml, "10") == ("None 1\n", "")


def test_after_one_hang_nobody_waits_again_until_the_driver_is_back(nvml: Nvml) -> None:
    """Later questions neither wait nor pile up threads; one that came back frees the way."""
    program = f"""{_READ}
print(inventory.problem)
for _ in range(3):
    took_s, inventory = timed()
    print(inventory.problem, took_s < 0.1, threading.active_count())
time.sleep(1.5)
took_s, inventory = timed()
print(inventory.problem, len(inventory.gpus), threading.active_count())
"""
    out, _ = _run(program, standin.HANGS_ONCE, nvml)
    again = "NVML still has not responded to an earlier query True 2"
    assert out.splitlines() == ["NVML did not respond within 0.3 s", *[again] * 3, "None 1 1"]


def test_a_forked_child_asks_for_itself(nvml: Nvml) -> None:
    """The stuck thread is not in the child: it asks, waits its time and continues."""
    program = f"""{_READ}
import warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of every fork beside a thread
child = os.fork()
if not child:
    took_s, inventory = timed()
    print(inventory.problem, took_s >= 0.3, flush=True)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    out, _ = _run(program, standin.HANGS, nvml)
    assert out.splitlines() == ["NVML did not respond within 0.3 s True", "7"]


def test_ctrl_c_comes_through_while_waiting(start: Start, nvml: Nvml) -> None:
    """The user need not wait for the driver, nor for the time to pass."""
    command = interruptible([sys.executable, "-c", f"print('asking', flush=True)\n{_READ}"])
    started = start(command, _environ(standin.HANGS, nvml, "600"))
    assert started.read_line() == "asking"
    time.sleep(1)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=20)
    assert "KeyboardInterrupt" in started.log
    assert started.returncode == -signal.SIGINT


def test_the_doctors_question_is_bounded_too(nvml: Nvml) -> None:
    """A GPU's health comes with the same patience."""
    program = """
from gpuconf.machine.cards.health import read_inventory_and_health
inventory, health = read_inventory_and_health()
print(inventory.problem, inventory.problem_code, health)
"""
    out, _ = _run(program, standin.HANGS, nvml)
    assert out == "NVML did not respond within 0.3 s no_answer {}\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 10), (" ", 10), ("30", 30), ("0.5", 0.5), (" 2 ", 2), ("1e2", 100), ("86400", 86400)],
)
def test_the_variable_is_a_number_of_seconds(text: str, seconds: float) -> None:
    """Empty is unset, as everywhere."""
    assert nvml_timeout.read_timeout_s({nvml_timeout.VARIABLE: text}) == seconds
    assert nvml_timeout.read_timeout_s({}) == 10


@pytest.mark.parametrize("text", ["abc", "-1", "0", "nan", "inf", "-inf", "10s", "1e999", "99999"])
def test_another_value_is_refused(text: str) -> None:
    """The error shows the value, the rule and what to write."""
    with pytest.raises(UsageError) as caught:
        nvml_timeout.read_timeout_s({nvml_timeout.VARIABLE: text})
    assert repr(text) in caught.value.message
    assert "number of seconds" in caught.value.message
    assert "export GPUCONF_NVML_TIMEOUT=" in str(caught.value.hint)


def test_a_refused_value_is_an_error_of_the_read(nvml: Nvml) -> None:
    """It is the user's mistake, and no lack of the machine's."""
    environ = _environ(standin.SCENARIOS["desktop"], nvml, "soon")
    done = run_with([sys.executable, "-c", _READ], environ)
    assert done.returncode == 1
    assert "UsageError: GPUCONF_NVML_TIMEOUT is 'soon'" in done.stderr


def test_what_the_question_raises_comes_through() -> None:
    """The thread hides no error of ours."""
    with pytest.raises(ZeroDivisionError):
        nvml_timeout.call_with_timeout(lambda: 1 // 0, timeout_s=5)
