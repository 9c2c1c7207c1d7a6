"""Forked children that say how far they are and wait for a word, for tests between processes."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LONGEST_S = 60


class Child:
    """Both sides of a child: it says words and waits; its parent expects them, and lets it go."""

    def __init__(self) -> None:
        self.pid = 0
        self._from_child, self._to_parent = os.pipe()
        self._from_parent, self._to_child = os.pipe()
        self._code: int | None = None

    # --- in the child ---------------------------------------------------------------------------

    def say(self, word: object) -> None:
        """Say ``word`` to the parent."""
        os.write(self._to_parent, f"{word}\n".encode())

    def wait(self) -> None:
        """Until the parent says go."""
        os.read(self._from_parent, 1)

    # --- in the parent --------------------------------------------------------------------------

    def hear(self) -> str:
        """The next line that the child says; empty once it has ended."""
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self._from_child, 1)
            if not part:
                break
            line += part
        return line.decode().rstrip("\n")

    def expect(self, word: object) -> None:
        """Fail unless ``word`` is what it says next."""
        heard = self.hear()
        assert heard == str(word), heard

    def go(self) -> None:
        """Let it go on from where it waits."""
        with suppress(BrokenPipeError):
            os.write(self._to_child, b"g")

    def kill(self) -> None:
        """SIGKILL, and its end."""
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int:
        """Its exit code, once it has ended."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def _close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def child(act: Callable[[Child], None]) -> Iterator[Child]:
    """A forked child that runs ``act``; afterwards it has ended, killed if it had to be.

    An exception in it is printed, and its exit code is 1.
    """
    made = Child()
    made.pid = fork()
    if made.pid == 0:
        _act(made, act)
    made._close(made._to_parent, made._from_parent)
    try:
        yield made
        made.go()
        assert made.end() in (0, -signal.SIGKILL)
    finally:
        if made._code is None:
            made.kill()
        made._close(made._from_child, made._to_child)


def fork() -> int:
    """`os.fork`, without Python 3.12's warning that a process with threads forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _act(made: Child, act: Callable[[Child], None]) -> None:
    code = 1
    try:
        signal.alarm(_LONGEST_S)  # whatever hangs
        made.pid = os.getpid()
        made._close(made._from_child, made._to_child)
        act(made)
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def descriptors() -> dict[str, str]:
    """The open descriptors of this process, and what they are open on."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found
