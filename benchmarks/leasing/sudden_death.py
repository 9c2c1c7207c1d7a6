"""SIGKILL in the middle of the ledger's own work: at its n-th call, or after a delay."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

# The ledger's calls on files; some are made only by the ledger between two checks.
_CALLS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (os, ("open", "rename", "unlink", "write", "listdir", "scandir", "mkdir", "chmod", "fchmod")),
    (fcntl, ("lockf", "flock", "fcntl")),
)


class Death(NamedTuple):
    """When a process fails: before its n-th call, after some seconds, or by itself."""

    call: int | None = None
    after_s: float | None = None

    @property
    def is_natural(self) -> bool:
        """Whether it ends by itself."""
        return self.call is None and self.after_s is None


def arm(death: Death) -> None:
    """From now on, let this process die as ``death`` says."""
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
