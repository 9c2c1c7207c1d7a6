"""The ledger's mutex: flock, waited for in the kernel, and never for longer than a bound.

flock works on a descriptor that is open for reading, so the file may belong to another user, and
be on a mount that is read-only here.  A thread does the waiting: a holder that hangs in the driver
must not hang us.  While the mutex changes hands the line moves, and is waited in for longer.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gpuconf.leases.folder import NoLedgerError

FILE = "mutex"
ONE_HOLDER_S = 10.0  # for a mutex that the same process holds
MOVING_LINE_S = 60.0  # for one that passes from hand to hand
_LOOK_EVERY_S = 1.0


class Mutex:
    """One process of the machine at a time; ``waited_s`` is how long the last one took to get."""

    def __init__(self, folder: str, *, one_holder_s: float = ONE_HOLDER_S) -> None:
        self.path = f"{folder}/{FILE}"
        self.waited_s = 0.0
        self._one_holder_s = one_holder_s
        self._descriptors: list[int] = []
        self._copies: set[int] = set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it; raises NoLedgerError if that fails, or takes too long."""
        is_done = False
        while not is_done:
            try:
                self._open()
                self._lock(self._descriptors[-1])
                if os.fstat(self._descriptors[-1]).st_nlink:  # else removed while we waited
                    is_done = True
                    yield
            finally:
                self.let_go()

    def let_go(self) -> None:
        """Let go of it if it is held; whoever undoes an interrupted operation calls this too.

        An interrupt may come between the end of that operation and this.
        """
        while self._descriptors:
            with suppress(OSError):
                # close() alone would leave it to a copy, such as that of a child forked now.
                fcntl.flock(self._descriptors[-1], fcntl.LOCK_UN)
            os.close(self._descriptors.pop())

    def after_fork(self) -> None:
        """In a forked child: the parent's thread held it, and the child holds a copy."""
        for descriptor in (*self._descriptors, *self._copies):
            with suppress(OSError):
                os.close(descriptor)
        self._descriptors, self._copies = [], set()

    def _open(self) -> None:
        # Without O_CREAT first: in a sticky folder Linux refuses that for another user's file
        # (fs.protected_regular).
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        for _ in range(100):
            with suppress(FileNotFoundError):
                self._try(flags)
                return
            with suppress(FileExistsError):
                self._make(flags)
                return
        raise NoLedgerError(f"{self.path} is removed again and again")

    def _make(self, flags: int) -> None:
        try:
            self._try(flags | os.O_CREAT | os.O_EXCL)
        except FileNotFoundError:
            raise NoLedgerError(f"{os.path.dirname(self.path)} is not there any more") from None
        os.fchmod(self._descriptors[-1], 0o644)  # whatever the umask

    def _try(self, flags: int) -> None:
        try:
            self._descriptors.append(os.open(self.path, flags, 0o644))
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise NoLedgerError(f"{self.path}: {error.strerror}") from None

    def _lock(self, descriptor: int) -> None:
        began = time.monotonic()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(descriptor)
        except OSError as error:
            raise NoLedgerError(f"{self.path}: {error.strerror}") from None
        finally:
            self.waited_s = time.monotonic() - began

    def _wait(self, descriptor: int) -> None:
        """Wait in a thread, which owns a descriptor of its own for the same lock."""
        got, given_up = threading.Event(), threading.Event()
        own: list[int] = []  # who takes it out closes it

        def wait() -> None:
            with suppress(IndexError):  # given up before it began
                mine = own.pop()
                with suppress(OSError):
                    fcntl.flock(mine, fcntl.LOCK_EX)
                got.set()
                if given_up.is_set():
                    with suppress(OSError):
                        fcntl.flock(mine, fcntl.LOCK_UN)
                self._copies.discard(mine)
                os.close(mine)

        try:
            self._start(wait, descriptor, own)
            self._watch(descriptor, got)
        except BaseException:
            # Only then, and before our caller unlocks: so one of the two always does, and the
            # thread never lets go of what it has got for us.
            given_up.set()
            with suppress(IndexError):
                os.close(own.pop())
            raise

    def _start(self, wait: Callable[[], None], descriptor: int, own: list[int]) -> None:
        """Begin ``wait`` in a thread, with a copy of ``descriptor`` as its ``own``."""
        try:
            own.append(os.dup(descriptor))
            self._copies.update(own)
            threading.Thread(target=wait, name="gpuconf-mutex", daemon=True).start()
        except (OSError, RuntimeError) as error:  # no more descriptors, or no more threads
            raise NoLedgerError(
                f"{self.path} is locked, and cannot be waited for: {error}"
            ) from None

    def _watch(self, descriptor: int, got: threading.Event) -> None:
        """Until ``got``; NoLedgerError once a holder, or the whole line, has had its time."""
        began = changed = time.monotonic()
        holder = holder_of(descriptor)
        while not got.wait(min(_LOOK_EVERY_S, self._one_holder_s)):
            now, holds = time.monotonic(), holder_of(descriptor)
            if holds != holder:
                holder, changed = holds, now
            if now - changed >= self._one_holder_s or now - began >= MOVING_LINE_S:
                who = f" by pid {holder}" if holder else ""
                raise NoLedgerError(f"{self.path} has been locked for {now - changed:.0f} s{who}")


def holder_of(descriptor: int) -> int | None:
    """The process that holds a flock on this file, from /proc/locks; None where it does not say.

    A line there: ``1: FLOCK  ADVISORY  WRITE 123 08:01:456 0 EOF``.
    """
    found = os.fstat(descriptor)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            for line in file:
                fields = line.split()
                if fields[1:2] == ["FLOCK"] and fields[5:6] == [place]:
                    return int(fields[4]) or None
    except (OSError, ValueError):
        pass
    return None
