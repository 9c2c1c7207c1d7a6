"""KeyboardInterrupt at every line of taking, waiting for and releasing a lease: nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machine.leases.line import ONE_CARD, START
from tests.programs.processes import Nvml, run_python

# The files whose lines count; ``check`` is what must hold after each interrupt.
_INTERRUPT = """
import contextlib
import gpuconf
from tests.programs.interrupts import interruptions
HERE = os.path.dirname(gpuconf.__file__)
WITHIN = (os.path.join(HERE, "machine", "leases", ""), os.path.join(HERE, "session", "leasing.py"))
WITH = contextlib.__file__

def at_every_line(function, check, within=WITHIN):
    lines = 0
    for number in interruptions(function, within):
        lines += 1
        until(mutex_is_free)
        check(number)
    return lines
"""


@pytest.mark.slow
@pytest.mark.parametrize("within", ["WITHIN", "(*WITHIN, WITH)"])
def test_while_a_lease_is_taken(within: str, tmp_path: Path, nvml: Nvml) -> None:
    """No file, no lock, no descriptor; the plan that comes through holds its lease."""
    program = f"""
chosen, own = profile(6144), OwnLeases()
plan(own, chosen)  # what is imported and opened once
own.release()
before = descriptors()
def take():
    global own
    own = OwnLeases()
    plan(own, chosen)
def check(number):
    assert files() == [], (number, files())
    assert descriptors() == before, (number, descriptors())
    assert own._ledger is None or own._ledger.held == ()
lines = at_every_line(take, check, {within})
assert lines > 300, lines
assert len(files()) == 1
"""
    run_python(START + _INTERRUPT + program, tmp_path, environ=nvml(ONE_CARD))


@pytest.mark.slow
def test_while_one_takes_the_place_of_another(tmp_path: Path, nvml: Nvml) -> None:
    """What the process believes that it holds is what others see."""
    program = """
small, large = profile(2048), profile(6144)
own = OwnLeases()
plan(own, small)
open_files = len(descriptors())
def take():
    plan(own, small)
    plan(own, large)
def check(number):
    held = [lease.name for lease in own._ledger.held]
    assert files() == held, (number, files(), held)
    assert len(descriptors()) == open_files - 1 + len(held), (number, descriptors())
lines = at_every_line(take, check)
assert lines > 600, lines
assert [name.rpartition(".")[2] for name in files()] == [str(6144 << 20)]
"""
    run_python(START + _INTERRUPT + program, tmp_path, environ=nvml(ONE_CARD))


@pytest.mark.slow
def test_while_it_waits_in_line(tmp_path: Path, nvml: Nvml) -> None:
    """At any moment of the wait, and at the end of its time: the place is given up."""
    program = """
wanted = profile(6144, "{wait: 1s}")
with child(asks(6144)) as holder:
    holder.expect("got 6144 of 0")
    before, names = descriptors(), files()
    seconds = [0.0]
    def take():
        own = OwnLeases(clock=lambda: seconds[0], sleep=lambda s: seconds.append(seconds.pop() + 2))
        try:
            plan(own, wanted)
        except ShortageError as error:
            assert "gave up after 1s" in error.message
    def check(number):
        assert files() == names, (number, files())
        assert descriptors() == before, (number, descriptors())
    lines = at_every_line(take, check, os.path.join(HERE, "session", "waiting.py"))
    assert lines > 15, lines
    assert files() == names
"""
    run_python(START + _INTERRUPT + program, tmp_path, environ=nvml(ONE_CARD))
