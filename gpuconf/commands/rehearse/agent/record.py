"""The agent's facts, in a file that the rehearsal reads while the program is still running."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any

REPORT = "report.json"
WRITABLE = "writable"  # exists until a process could not write to the folder


class AgentRecord:
    """The facts of one process, in its own folder under ``folder``.

    Every change is written at once and completely: the program may be killed at any moment.
    """

    def __init__(self, folder: str) -> None:
        self.root = folder
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        self.pid = os.getpid()
        self.folder = os.path.join(self.root, str(self.pid))
        self.facts: dict[str, Any] = {
            "pid": self.pid,
            "python": sys.version.split()[0],
            "steps": 0,
            "errors": [],
            "notes": [],
            "others": [],
            "ended": None,
        }

    def begin_again(self) -> None:
        """Start afresh in a forked child, whose parent may have held the lock."""
        self._lock = threading.RLock()
        self._begin()

    def update(self, **facts: Any) -> None:
        """Set facts and write all of them."""
        with self._lock:
            self.facts.update(facts)
            self._write()

    def append(self, name: str, value: Any, *, most: int = 50) -> None:
        """Add a value to a list of facts unless it is present; the latest ``most`` are kept."""
        with self._lock:
            known = self.facts.setdefault(name, [])
            if value not in known:
                self.facts[name] = [*known[1 - most :], value]
                self._write()

    def _write(self) -> None:
        """Write all facts.  A full disk makes the rehearsal fail, not the program."""
        unfinished = os.path.join(self.folder, REPORT + ".new")
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(unfinished, "w", encoding="utf-8") as file:
                json.dump(self.facts, file)
            os.replace(unfinished, os.path.join(self.folder, REPORT))
        except OSError:
            with suppress(OSError):
                os.unlink(os.path.join(self.root, WRITABLE))
