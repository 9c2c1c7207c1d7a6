"""The ledger's mutex between real processes: one at a time, and no waiting without a bound."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gpuconf.machine.leases.folder import NoLedgerError
from gpuconf.machine.leases.mutex import FILE, Mutex
from tests.machine.leases.processes import Child, child, descriptors, fork


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A ledger's folder."""
    return str(tmp_path)


def _hold(folder: str) -> Callable[[Child], None]:
    def hold(self: Child) -> None:
        with Mutex(folder).held():
            self.say("held")
            self.wait()

    return hold


def is_free(folder: str) -> bool:
    """Whether nobody holds the mutex of ``folder``."""
    descriptor = os.open(f"{folder}/{FILE}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_it_is_held_and_let_go_of(folder: str) -> None:
    """Inside nobody else gets it; afterwards it is free, and no descriptor is left."""
    before = descriptors()
    with Mutex(folder).held():
        assert not is_free(folder)
    assert is_free(folder)
    assert descriptors() == before
    assert os.stat(f"{folder}/{FILE}").st_mode & 0o777 == 0o644


def test_it_moves_on_when_its_holder_ends(folder: str) -> None:
    """Who waits gets it as soon as the holder lets go of it, or is killed."""
    for signal_number in (signal.SIGUSR1, signal.SIGKILL):
        with child(_hold(folder)) as holder:
            holder.expect("held")
            end = holder.go if signal_number != signal.SIGKILL else holder.kill
            timer = threading.Timer(0.1, end)
            timer.start()
            mutex = Mutex(folder)
            with mutex.held():
                assert not is_free(folder)
            assert mutex.waited_s > 0
            timer.join()


def test_an_interrupt_ends_a_wait(folder: str) -> None:
    """Ctrl-C while another program holds it: no descriptor is left, and it is still that one's."""
    with child(_hold(folder)) as holder:
        holder.expect("held")
        before = descriptors()
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt), Mutex(folder).held():
            pytest.fail("two hold it")
        timer.join()
        assert descriptors() == before
        assert not is_free(folder)


def test_it_is_bounded_when_its_holder_hangs(
    folder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A holder that is stopped, or hangs in the driver, stops nobody for good; a line says so."""
    with child(_hold(folder)) as holder:
        holder.expect("held")
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(NoLedgerError, match=r"mutex has been locked for \d+ s"):
            Mutex(folder, longest_wait_s=0.2, notice_after_s=0.1).held().__enter__()
        said = f"gpuconf: waiting for {folder}/{FILE}, which another program has locked\n"
        assert capfd.readouterr().err == said
        os.kill(holder.pid, signal.SIGCONT)
        holder.go()


def test_it_was_removed_while_we_waited(folder: str) -> None:
    """A lock of a file that is gone keeps nobody out: the new file's is taken."""
    with child(_hold(folder)) as holder:
        holder.expect("held")

        def remove() -> None:
            os.unlink(f"{folder}/{FILE}")
            holder.go()

        timer = threading.Timer(0.1, remove)
        timer.start()
        with Mutex(folder).held():
            assert not is_free(folder)
        timer.join()
    assert is_free(folder)


def test_a_forked_child_of_the_holder_does_not_keep_it(folder: str) -> None:
    """Neither when the holder lets go of it, nor when it is killed."""

    def hold(self: Child) -> None:
        mutex = Mutex(folder)
        os.register_at_fork(after_in_child=mutex.after_fork)
        with mutex.held():
            pid = fork()
            if pid == 0:
                while os.getppid() == self.pid:
                    time.sleep(0.01)
                time.sleep(0.5)
                os._exit(0)
            self.say("held")
            self.wait()

    for kill in (False, True):
        with child(hold) as holder:
            holder.expect("held")
            holder.kill() if kill else holder.go()
            with Mutex(folder).held():
                pass


def test_one_at_a_time(folder: str) -> None:
    """Four busy processes that pass it round lose no count."""
    program = f"""
import os, sys
from gpuconf.machine.leases.mutex import Mutex
sys.setswitchinterval(1e-6)
mutex = Mutex({folder!r})
for _ in range(150):
    with mutex.held():
        with open({folder!r} + "/count", "r+") as file:
            number = int(file.read() or 0)
            file.seek(0)
            file.write(str(number + 1))
"""
    Path(folder, "count").touch()
    started = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [each.wait(60) for each in started] == [0] * 4
    assert Path(folder, "count").read_text() == "600"


@pytest.mark.parametrize("kind", ["link", "no folder"])
def test_no_mutex_to_be_had(kind: str, folder: str) -> None:
    """Where it cannot be opened or made that is one error, at once."""
    if kind == "link":
        os.symlink("/etc/passwd", f"{folder}/{FILE}")
    else:
        folder += "/missing"
    with pytest.raises(NoLedgerError, match=folder):
        Mutex(folder).held().__enter__()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_another_kind_of_file_does_as_well(make: Callable[[str], None], folder: str) -> None:
    """The kernel locks a folder and a pipe as well; nobody waits for the pipe's writer."""
    make(f"{folder}/{FILE}")
    with Mutex(folder).held():
        assert not is_free(folder)
    assert is_free(folder)


def test_no_descriptor_is_left(folder: str) -> None:
    """A lack of this process's is the same error."""

    def lack(self: Child) -> None:
        highest = max(map(int, descriptors()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, highest + 4))
        with suppress(OSError):
            while True:
                os.dup(0)
        try:
            with Mutex(folder).held():
                self.say("held")
        except NoLedgerError as error:
            self.say("Too many open files" in str(error))

    with child(lack) as poor:
        poor.expect("True")
