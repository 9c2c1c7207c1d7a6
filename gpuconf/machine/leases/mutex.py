"""The ledger's mutex: flock, with a bounded wait in the kernel.

flock works on a descriptor opened for reading, so the file may belong to another user or be on a
read-only mount.  A thread does the waiting, so that a holder that hangs in the driver does not hang
us.  If the mutex keeps changing hands, the queue is moving and we wait longer.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gpuconf.machine.leases.folder import NoLedgerError

FILE = "mutex"
ONE_HOLDER_S = 10.0  # while the same process holds the mutex
MOVING_LINE_S = 60.0  # while it passes from holder to holder
_LOOK_EVERY_S = 1.0


class Mutex:
    """Admits one process of the machine at a time; ``waited_s`` is the last waiting time."""

    def __init__(self, folder: str, *, one_holder_s: float = ONE_HOLDER_S) -> None:
        self.path = f"{folder}/{FILE}"
        self.waited_s = 0.0
        self._one_holder_s = one_holder_s
        self._descriptors: list[int] = []
        self._copies: set[int] = set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it; raise NoLedgerError if that fails or takes too long."""
        is_done = False
        while not is_done:
            try:
                self._open()
                self._lock(self._descriptors[-1])
                if os.fstat(self._descriptors[-1]).st_nlink:  # else it was removed meanwhile
                    is_done = True
                    yield
            finally:
                self.let_go()

    def let_go(self) -> None:
        """Release it if it is held; also call this when undoing an interrupted operation.

        An interrupt may come between the end of that operation and this call.
        """
        while self._descriptors:
            with suppress(OSError):
                # close() alone would leave it to a copy, such as one in a child forked just now.
                fcntl.flock(self._descriptors[-1], fcntl.LOCK_UN)
            os.close(self._descriptors.pop())

    def after_fork(self) -> None:
        """Close the copies in a forked child; the parent's thread holds the mutex."""
        for descriptor in (*self._descriptors, *self._copies):
            with suppress(OSError):
                os.close(descriptor)
        self._descriptors, self._copies = [], set()

    def _open(self) -> None:
        # First without O_CREAT, which Linux refuses for another user's file in a sticky folder
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
        """Wait in a thread, which has its own descriptor for the same lock."""
        got, given_up = threading.Event(), threading.Event()
        own: list[int] = []  # whoever pops it closes it

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
            # Only here, and before our caller unlocks.  So one of the two always unlocks, and the
            # thread never releases a lock that it has taken for us.
            given_up.set()
            with suppress(IndexError):
                os.close(own.pop())
            raise

    def _start(self, wait: Callable[[], None], descriptor: int, own: list[int]) -> None:
        """Run ``wait`` in a thread, with a copy of ``descriptor`` in ``own``."""
        try:
            own.append(os.dup(descriptor))
            self._copies.update(own)
            threading.Thread(target=wait, name="gpuconf-mutex", daemon=True).start()
        except (OSError, RuntimeError) as error:  # out of descriptors or threads
            raise NoLedgerError(
                f"{self.path} is locked, and cannot be waited for: {error}"
            ) from None

    def _watch(self, descriptor: int, got: threading.Event) -> None:
        """Wait for ``got``; raise NoLedgerError if one holder or the whole queue takes too long."""
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
    """Return the process that holds a flock on this file, from /proc/locks; None if unknown.

    Example of a line: ``1: FLOCK  ADVISORY  WRITE 123 08:01:456 0 EOF``.
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
