"""SIGKILL in the middle of the ledger's own work: at the n-th call that it makes, or at a time."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

# What a ledger does to files, call by call; some of them nobody but it makes between two questions.
_CALLS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (os, ("open", "rename", "unlink", "write", "listdir", "scandir", "mkdir", "chmod", "fchmod")),
    (fcntl, ("lockf", "flock", "fcntl")),
)


class Death(NamedTuple):
    """When a process is to die: before its so-manieth call, after so many seconds, or by itself."""

    call: int | None = None
    after_s: float | None = None

    @property
    def is_natural(self) -> bool:
        """Whether it is left to end by itself."""
        return self.call is None and self.after_s is None


def arm(death: Death) -> None:
    """From now on: this process dies as ``death`` says."""
    if death.after_s is not None:
        timer = threading.Timer(death.after_s, _die)
        timer.daemon = True
        timer.start()
    if death.call is not None:
        left = [death.call]
        for module, names in _CALLS:
            for name in names:
                setattr(module, name, _deadly(getattr(module, name), left))


def _deadly(call: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            _die()
        return call(*args, **options)

    return counted


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
