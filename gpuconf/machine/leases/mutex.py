"""The ledger's mutex: a flock, retried until it is free or the time is up.

flock works on a descriptor opened for reading, so the file may belong to another user or be on a
read-only mount.  A wait in the kernel would be unbounded, and a holder may hang in the driver.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gpuconf.basics.terminal import say
from gpuconf.machine.leases.folder import NoLedgerError

if sys.platform != "win32":
    import fcntl

FILE = "mutex"
LONGEST_WAIT_S = 60.0
_NOTICE_AFTER_S = 10.0
# Pauses between two tries.  They differ, so that programs that wait together do not try together.
_PAUSES_S = (0.01, 0.04)


class Mutex:
    """Admits one process on the machine at a time; ``waited_s`` is how long the last wait took.

    After ``notice_after_s`` of waiting, a line on stderr says so.
    """

    def __init__(
        self,
        folder: str,
        *,
        longest_wait_s: float = LONGEST_WAIT_S,
        notice_after_s: float = _NOTICE_AFTER_S,
    ) -> None:
        self.path = f"{folder}/{FILE}"
        self.waited_s = 0.0
        self._longest_wait_s = longest_wait_s
        self._notice_after_s = notice_after_s
        self._descriptor: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Acquire the mutex; raise NoLedgerError if that fails or takes too long."""
        began = time.monotonic()
        self.waited_s, is_said = 0.0, False
        try:
            while not self._is_taken():
                self.waited_s = time.monotonic() - began
                if self.waited_s >= self._longest_wait_s:
                    raise NoLedgerError(f"{self.path} has been locked for {self.waited_s:.0f} s")
                if self.waited_s >= self._notice_after_s and not is_said:
                    is_said = True
                    say(f"waiting for {self.path}, which another program has locked")
                time.sleep(random.uniform(*_PAUSES_S))
            yield
        finally:
            self.let_go()

    def after_fork(self) -> None:
        """Close the copy in a forked child; the parent's thread holds the mutex."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def _is_taken(self) -> bool:
        """Try once; True if the lock is ours now, and the file still has its name."""
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileExistsError):
            return False
        except OSError as error:
            raise NoLedgerError(f"{self.path}: {error.strerror}") from None
        if os.fstat(self._descriptor).st_nlink:
            return True
        self.let_go()  # it was removed meanwhile, and its lock keeps nobody out
        return False

    def _open(self) -> int:
        # First without O_CREAT, which Linux refuses for another user's file in a sticky folder
        # (fs.protected_regular).
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            descriptor = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(descriptor, 0o644)  # whatever the umask
            return descriptor

    def let_go(self) -> None:
        """Release the mutex if it is held, even after an interrupt in an earlier call."""
        if self._descriptor is not None:
            with suppress(OSError):
                # close() alone would leave it to a copy, such as one in a child forked just now.
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                os.close(self._descriptor)
            self._descriptor = None
