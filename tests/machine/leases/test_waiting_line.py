"""The queue for a lease: first come, first served, and nobody who has left is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.machine.leases.line import ONE_CARD, START, TWO_CARDS
from tests.programs.processes import Nvml, run_python

pytestmark = pytest.mark.slow  # starts many programs

ROWS = yaml.safe_load(Path(__file__).with_name("waiting_line.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ROWS)
def test_waiting_in_line(name: str, tmp_path: Path, nvml: Nvml) -> None:
    """The program of waiting_line.yaml comes to its end; a comment there is the property."""
    machine = TWO_CARDS if ROWS[name].get("cards") == 2 else ONE_CARD
    run_python(START + ROWS[name]["program"], tmp_path, environ=nvml(machine))


def test_after_exec(tmp_path: Path, nvml: Nvml) -> None:
    """A program that takes over a lease plans in its place, and has that lease alone."""
    again = """
own = OwnLeases()
os.write(int(sys.argv[1]), f"{sizes(plan(own, profile(4096)))}\\n".encode())
os.read(int(sys.argv[2]), 1)
"""
    program = """
def act(self):
    made = plan(OwnLeases(), profile(6144))
    self.say(sizes(made))
    self.wait()
    os.set_inheritable(self._to_parent, True)
    os.set_inheritable(self._from_parent, True)
    ends = [str(self._to_parent), str(self._from_parent)]
    os.execv(sys.executable, [sys.executable, "again.py", *ends])

with child(act) as a:
    a.expect([6144])
    with child(asks(4096, WAITS)) as b:
        waiting(1)
        a.go()
        a.expect([4096])
        b.expect("got 4096 of 0")
        assert len(files()) == 2
"""
    (tmp_path / "again.py").write_text(START + again)
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


@pytest.mark.parametrize("holds", [False, True])
def test_a_ledger_that_was_removed_meanwhile(holds: bool, tmp_path: Path, nvml: Nvml) -> None:
    """Who waits in it, or has leased something there, continues in a new one."""
    program = f"""
import shutil
HOLDS = {holds}

def act(self):
    own = OwnLeases()
    if HOLDS:
        plan(own, profile(2048))
        self.say("holds")
        self.wait()
    self.say(sizes(plan(own, profile(6144, WAITS))))
    self.wait()

def other(self):
    plan(OwnLeases(), profile(10 if HOLDS else 6144))
    self.say("holds")
    self.wait()

with child(other) as b:
    b.expect("holds")
    with child(act) as a:
        if HOLDS:
            a.expect("holds")
        else:
            waiting(1)
        shutil.rmtree(LEDGER)
        b.kill()
        a.go()
        a.expect("[6144]")
        assert [name.rpartition(".")[2] for name in files("lease")] == [str(6144 << 20)]
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


@pytest.mark.slow
def test_a_long_line(tmp_path: Path, nvml: Nvml) -> None:
    """Only the first asks NVML; all leave, by ^C, killed, or served; nothing is left of them."""
    log = tmp_path / "calls"
    program = f"""
LOG = Path({str(log)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
def calls():
    return len(LOG.read_text().splitlines())
with ExitStack() as stack:
    holder = stack.enter_context(child(asks(8000)))
    holder.expect("got 8000 of 0")
    each, joined, waiters = calls(), time.monotonic(), []
    for number in range(64):
        waiters.append(stack.enter_context(child(asks(1000, WAITS))))
    waiting(64)
    looks = calls() / each - 65  # each has looked once, and the first now and then since
    assert looks <= (time.monotonic() - joined) / 0.5 + 1, looks
    before, began = calls(), time.monotonic()
    time.sleep(2)
    looks = (calls() - before) / each
    assert 1 <= looks <= (time.monotonic() - began) / 0.5 + 1, looks
    for number, waiter in enumerate(waiters[:56]):
        os.kill(waiter.pid, signal.SIGKILL if number % 2 else signal.SIGINT)
    for number, waiter in enumerate(waiters[:56]):
        waiter.end() if number % 2 else waiter.expect("interrupted")
    holder.go()
    for waiter in waiters[56:]:
        waiter.expect("got 1000 of 0")
    assert len(files("waits")) <= 28  # a reader sweeps no more than it must
    for waiter in waiters[56:]:
        waiter.go()
        waiter.end()
    with child(asks(8192)) as last:
        last.expect("got 8192 of 0")
        assert files() == files("lease") and len(files()) == 1
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD, call_log=log))
