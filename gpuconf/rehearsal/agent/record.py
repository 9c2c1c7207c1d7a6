"""What the agent knows, in a file that the rehearsal reads while the program still runs."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any

REPORT = "report.json"
WRITABLE = "writable"  # a file in the folder until somebody could not write there


class AgentRecord:
    """The facts of one process, in a folder of its own below ``folder``.

    Every change is written at once and whole: the program may be killed at any moment.
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
        """In a forked child: its facts are its own, and its parent's lock may be held."""
        self._lock = threading.RLock()
        self._begin()

    def update(self, **facts: Any) -> None:
        """Set facts and write them all."""
        with self._lock:
            self.facts.update(facts)
            self._write()

    def append(self, name: str, value: Any, *, most: int = 50) -> None:
        """Add to a list of facts, unless it is there; the latest ``most`` are kept."""
        with self._lock:
            known = self.facts.setdefault(name, [])
            if value not in known:
                self.facts[name] = [*known[1 - most :], value]
                self._write()

    def _write(self) -> None:
        """Write all facts.  A full disk fails the rehearsal, not the program."""
        unfinished = os.path.join(self.folder, REPORT + ".new")
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(unfinished, "w", encoding="utf-8") as file:
                json.dump(self.facts, file)
            os.replace(unfinished, os.path.join(self.folder, REPORT))
        except OSError:
            with suppress(OSError):
                os.unlink(os.path.join(self.root, WRITABLE))
