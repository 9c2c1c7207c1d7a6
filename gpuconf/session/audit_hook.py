"""The second hook: Python's audit events, for what import hooks miss.

An audit hook cannot be removed, and no other finder can get ahead of it. At each import, it detects
two situations:

- The import of a framework begins: our finder is moved to the front again, wherever other packages
  (comet_ml, typeguard) have inserted theirs since.
- A framework is loaded but its hook was not called, because something loaded it without any finder
  or another thread was importing it when we were loaded: its hook is called now.

docs/design.md describes its cost, and the alternatives that were rejected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import local
from typing import Any

from gpuconf.basics.terminal import debug
from gpuconf.session import import_hook

# The events raised by an import of any Python file or library.
_EVENTS = frozenset({"import", "exec"})


class AuditHook:
    """Calls ``catch_up(name)`` for a framework that was imported without its hook."""

    def __init__(self) -> None:
        self._catch_up: Callable[[str], None] | None = None
        self._is_set = False
        self._busy = local()  # a thread that is catching up imports modules itself

    def arm(self, catch_up: Callable[[str], None]) -> None:
        """Start watching; the audit hook itself stays for the life of the process."""
        self._catch_up = catch_up
        if not self._is_set:
            self._is_set = True
            sys.addaudithook(self._on_event)

    def after_fork(self) -> None:
        """Resume watching in a forked child, even if its parent was catching up."""
        self._busy = local()

    def disarm(self) -> None:
        """Stop watching."""
        self._catch_up = None

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS:  # by far the most
            return
        catch_up = self._catch_up
        if catch_up is None or getattr(self._busy, "now", False) or sys.is_finalizing():
            return
        try:
            if event == "import":
                import_hook.hooks.keep_first(str(args[0]))
            for name in filter(import_hook.is_whole, import_hook.hooks.unmet()):
                try:
                    self._busy.now = True
                    catch_up(name)
                finally:
                    self._busy.now = False
        except Exception as error:  # this runs inside the user's own import
            debug(f"the audit hook failed at {event}: {error!r}")
