"""The queue for a lease: first come, first served, and nobody who has left is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machine.leases.line import ONE_CARD, START, TWO_CARDS
from tests.programs.processes import Nvml, run_python

pytestmark = pytest.mark.slow  # starts many programs


def test_a_small_request_cannot_jump_the_line(tmp_path: Path, nvml: Nvml) -> None:
    """One that does not wait is refused while another waits, although it would fit."""
    program = """
with child(asks(6144)) as a:
    a.expect("got 6144 of 0")
    with child(asks(5120, WAITS)) as b:
        waiting(1)
        with child(asks(2048)) as c:
            assert "1 program is waiting ahead of this one" in c.hear()
        with child(asks(2048, WAITS)) as d:
            waiting(2)
            with child(asks(3072, WAITS)) as e:
                waiting(3)
                a.go()
                b.expect("got 5120 of 0")
                d.expect("got 2048 of 0")
                waiting(1)
                b.go()
                e.expect("got 3072 of 0")
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


def test_time_is_up(tmp_path: Path, nvml: Nvml) -> None:
    """Who has waited in vain leaves the line, and the next one is not held up."""
    program = """
with child(asks(8192)) as a:
    a.expect("got 8192 of 0")
    with child(asks(5120, "{wait: 1s}")) as b, child(asks(1024, WAITS)) as c:
        assert b.hear().startswith("gave up after 1s")
        waiting(1)
        a.go()
        c.expect("got 1024 of 0")
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


def test_who_is_stopped_holds_up_nobody(tmp_path: Path, nvml: Nvml) -> None:
    """The first in line is stopped: the next takes its turn, and it takes its own later."""
    program = """
with child(asks(8192)) as a:
    a.expect("got 8192 of 0")
    with child(asks(5120, WAITS)) as b:
        waiting(1)
        with child(asks(4096, WAITS)) as c:
            waiting(2)
            os.kill(b.pid, signal.SIGSTOP)
            a.go()
            c.expect("got 4096 of 0")
            c.go()
            c.end()
        os.kill(b.pid, signal.SIGCONT)
        b.expect("got 5120 of 0")
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


def test_a_line_for_several_cards(tmp_path: Path, nvml: Nvml) -> None:
    """Who would take any GPU waits for all, takes the first, and leaves the other lines."""
    program = """
most_free = "{pick: most-free}"
with child(asks(8192, gpus=most_free)) as a, child(asks(8192, WAITS, gpus=most_free)) as b:
    assert sorted((a.hear(), b.hear())) == ["got 8192 of 0", "got 8192 of 1"]
    with child(asks(4096, WAITS, gpus=most_free)) as c:
        waiting(2)
        with child(asks(1024, gpus=most_free)) as d:
            assert "1 program is waiting" in d.hear()
        b.go()
        assert c.hear().startswith("got 4096 of ")
        assert files("waits") == []
        with child(asks(1024, gpus=most_free)) as d:
            assert d.hear().startswith("got 1024 of ")
"""
    run_python(START + program, tmp_path, environ=nvml(TWO_CARDS))


def test_who_holds_a_lease_has_had_its_turn(tmp_path: Path, nvml: Nvml) -> None:
    """It plans again, as at the binding after a wait at the import, and is not behind others."""
    program = """
def twice(self):
    own, chosen = OwnLeases(), profile(6144, WAITS)
    for _ in range(3):
        made = plan(own, chosen)
        self.say(sizes(made))
        self.wait()

with child(asks(8192)) as a:
    a.expect("got 8192 of 0")
    with child(twice) as b:
        waiting(1)
        with child(asks(5120, WAITS)) as c:
            waiting(2)
            a.go()
            b.expect([6144])
            waiting(1)
            a.end()
            for _ in range(2):
                b.go()
                b.expect([6144])
                assert len(files("waits")) == 1
            b.go()
            c.expect("got 5120 of 0")
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


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


def test_a_fork_that_python_does_not_see(tmp_path: Path, nvml: Nvml) -> None:
    """The child of C code takes a lease of its own next to its parent's, which stays."""
    program = """
import ctypes
own = OwnLeases()
plan(own, profile(6144))
read, write = os.pipe()
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    os.write(write, f"{sizes(plan(own, profile(2048)))} {len(files())}".encode())
    os._exit(0)
assert os.read(read, 100) == b"[2048] 2"
assert os.waitpid(pid, 0)[1] == 0
with child(asks(2049)) as other:
    assert "of which other processes have reserved" in other.hear()
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


def test_a_failed_plan_keeps_what_was_held(tmp_path: Path, nvml: Nvml) -> None:
    """A larger one that is refused leaves the lease as it was; so does one that is interrupted."""
    program = """
def act(self):
    own = OwnLeases()
    plan(own, profile(2048))
    before = files("lease")
    try:
        plan(own, profile(9000))
    except ShortageError:
        assert files() == before
        self.say("refused")
    self.wait()

with child(act) as a:
    a.expect("refused")
    with child(asks(6144)) as b:
        b.expect("got 6144 of 0")
"""
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
    environ = nvml(ONE_CARD)
    facts = Path(environ["STANDIN_NVML"])
    logged = tmp_path / "machine.txt"
    logged.write_text(f"call_log {log}\n{facts.read_text()}")
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
    run_python(START + program, tmp_path, environ={**environ, "STANDIN_NVML": str(logged)})
