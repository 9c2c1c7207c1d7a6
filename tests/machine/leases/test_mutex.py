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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gpuconf.machine.leases import mutex as mutex_module
from gpuconf.machine.leases.folder import NoLedgerError
from gpuconf.machine.leases.mutex import FILE, Mutex, holder_of
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


@pytest.mark.slow
def test_what_was_waited_for_stays_ours(folder: str) -> None:
    """The thread that has got it for us must not let go of it, however late it comes to its end."""
    with child(_hold(folder)) as holder:
        holder.expect("held")
        timer = threading.Timer(0.1, holder.go)
        timer.start()
        with _slow_threads(), Mutex(folder).held():
            time.sleep(0.3)
            assert not is_free(folder)
        timer.join()
    assert is_free(folder)


@contextmanager
def _slow_threads() -> Iterator[None]:
    """Threads pause at each line of the mutex, as those of a busy machine do."""

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        if frame.f_code.co_filename != mutex_module.__file__:
            return None
        if event == "line":
            time.sleep(0.05)
        return trace

    threading.settrace(trace)
    try:
        yield
    finally:
        threading.settrace(None)


def test_it_is_bounded_when_its_holder_hangs(folder: str) -> None:
    """A holder that is stopped, or hangs in the driver, is named, and the program goes on."""
    with child(_hold(folder)) as holder:
        holder.expect("held")
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(NoLedgerError, match=rf"locked for \d+ s by pid {holder.pid}"):
            Mutex(folder, one_holder_s=0.2).held().__enter__()
        os.kill(holder.pid, signal.SIGCONT)
        holder.go()
    deadline = time.monotonic() + 10
    while not is_free(folder) or threading.active_count() > 1:  # the thread, too, lets go of it
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_it_is_waited_for_longer_while_it_changes_hands(folder: str) -> None:
    """The bound is for one holder: a line that moves is no reason to go without."""
    with ExitStack() as stack:

        class PassedOn(threading.Event):
            """Not yet there at five looks; before each another process has got the mutex."""

            looks = 0

            def wait(self, timeout: float | None = None) -> bool:
                assert timeout is not None
                self.looks += 1
                stack.close()
                stack.enter_context(child(_hold(folder))).expect("held")
                time.sleep(timeout)
                return self.looks == 5

        mutex, got = Mutex(folder, one_holder_s=0.05), PassedOn()
        with mutex.held():
            pass
        descriptor = os.open(mutex.path, os.O_RDONLY)
        mutex._watch(descriptor, got)
        assert got.looks == 5
        with pytest.raises(NoLedgerError, match="has been locked"):
            mutex._watch(descriptor, threading.Event())
        os.close(descriptor)


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


def test_a_forked_child_of_one_that_waits_does_not_keep_it(folder: str) -> None:
    """The thread's copy is closed in the child as well."""
    before = descriptors()
    with child(_hold(folder)) as holder:
        holder.expect("held")
        mutex = Mutex(folder)
        entered = threading.Event()

        def enter() -> None:
            with mutex.held():
                entered.set()

        thread = threading.Thread(target=enter)
        thread.start()
        while len(descriptors()) < len(before) + 4:  # two pipes' ends, ours and the thread's
            time.sleep(0.01)
        pid = fork()
        if pid == 0:
            mutex.after_fork()
            held = [each for each in descriptors().values() if each.endswith(f"/{FILE}")]
            os._exit(len(held))
        assert os.waitpid(pid, 0)[1] == 0
        holder.go()
        thread.join()
    assert entered.is_set()
    assert descriptors() == before


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


def test_the_holder_is_named(folder: str) -> None:
    """From the kernel's own list of locks."""
    with child(_hold(folder)) as holder:
        holder.expect("held")
        descriptor = os.open(f"{folder}/{FILE}", os.O_RDONLY)
        assert holder_of(descriptor) == holder.pid
        os.close(descriptor)
        holder.go()


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


@pytest.mark.parametrize("spare", [0, 1])
def test_no_descriptor_is_left(spare: int, folder: str) -> None:
    """A lack of this process's, at the file or at the thread's copy, is the same error."""

    def lack(self: Child) -> None:
        highest = max(map(int, descriptors()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, highest + 4))
        taken = []
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for each in taken[:spare]:
            os.close(each)
        try:
            with Mutex(folder).held():
                self.say("held")
        except NoLedgerError as error:
            self.say("Too many open files" in str(error))

    with child(_hold(folder)) as holder:
        holder.expect("held")
        with child(lack) as poor:
            poor.expect("True")


def test_no_thread_is_left(folder: str) -> None:
    """Where no thread can be started, too; whoever holds it is not disturbed."""

    def lack(self: Child) -> None:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        threading.stack_size(256 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), size + (64 << 20)))
        try:
            with Mutex(folder).held():
                self.say("held")
        except NoLedgerError as error:
            self.say("can't start new thread" in str(error))

    with child(_hold(folder)) as holder:
        holder.expect("held")
        with child(lack) as poor:
            poor.expect("True")
        assert not is_free(folder)
