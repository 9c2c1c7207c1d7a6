"""Files of another user, which only root can make."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GiveAway = Callable[[Path], None]
SOMEBODY = 65534


def giving_away(monkeypatch: pytest.MonkeyPatch) -> GiveAway:
    """A function that makes a file or folder somebody else's.

    Only root can do that for one file; another user becomes somebody else than the owner of all.
    """
    me = os.getuid()

    def give(path: Path) -> None:
        if me == 0:
            os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "getuid", lambda: me + 1)

    return give
