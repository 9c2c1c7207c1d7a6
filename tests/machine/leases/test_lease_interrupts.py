"""KeyboardInterrupt at every line of taking, waiting for and releasing a lease: nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machine.leases.line import ONE_CARD, START
from tests.programs.processes import Nvml, run_python

# The files whose lines count; ``check`` is what must hold after each interrupt.
_INTERRUPT = """
import contextlib, fcntl, threading
import gpuconf.machine.leases
from tests.programs.interrupts import interruptions
HERE = os.path.dirname(os.path.dirname(gpuconf.machine.leases.__file__))
WITHIN = (os.path.join(HERE, "machine", "leases", ""), os.path.join(HERE, "session", "leasing.py"))
WITH = contextlib.__file__

def mutex_is_free():
    with open(LEDGER / "mutex") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True

def at_every_line(function, check, within=WITHIN):
    lines = 0
    for number in interruptions(function, within):
        lines += 1
        until(mutex_is_free)
        until(lambda: threading.active_count() == 1)
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
own.take_back_to([])
before = descriptors()
def take():
    global own
    own = OwnLeases()
    plan(own, chosen)
def check(number):
    assert files() == [], (number, files())
    assert descriptors() == before, (number, descriptors())
    assert own.snapshot() == []
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
    """On the way in, in the line, at the end of its time: the place is given up.

    The binding puts everything back once more, for an interrupt within the leases' own clean-up.
    """
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
        except KeyboardInterrupt:
            own.take_back_to([])
            raise
    def check(number):
        assert files() == names, (number, files())
        assert descriptors() == before, (number, descriptors())
    lines = at_every_line(take, check)
    assert lines > 600, lines
    assert files() == names
"""
    run_python(START + _INTERRUPT + program, tmp_path, environ=nvml(ONE_CARD))


def test_while_it_waits_for_the_mutex(tmp_path: Path, nvml: Nvml) -> None:
    """The thread that waits, too, is gone, and has let go of what it got too late."""
    program = """
from gpuconf.machine.leases.folder import find_folder
from gpuconf.machine.leases.mutex import Mutex
folder = find_folder().path
def hold(self):
    mutex = Mutex(folder)
    os.set_blocking(self._from_parent, False)
    while True:
        with mutex.held():
            self.say("held")
            place = f":{os.stat(mutex.path).st_ino} "
            while True:
                lines = Path("/proc/locks").read_text().splitlines()
                blocked = [line for line in lines if "->" in line and place in line]
                try:
                    over = bool(os.read(self._from_parent, 1))
                except BlockingIOError:
                    over = False
                if blocked or over:
                    break
        self.say("free")
        while not over:
            try:
                over = bool(os.read(self._from_parent, 1))
            except BlockingIOError:
                time.sleep(0.001)

with child(hold) as holder:
    mutex, before = Mutex(folder), descriptors()
    def take():
        holder.expect("held")
        with mutex.held():
            assert not mutex_is_free()
        assert mutex.waited_s > 0
    lines = 0
    for number in interruptions(take, WITHIN):
        lines += 1
        holder.go()
        holder.expect("free")
        until(lambda: threading.active_count() == 1)
        mutex.let_go()  # as Ledger.take_back_to does
        assert descriptors() == before, (number, descriptors())
    assert lines > 20, lines
    holder.kill()
    assert mutex_is_free()
"""
    run_python(START + _INTERRUPT + program, tmp_path, environ=nvml(ONE_CARD))
