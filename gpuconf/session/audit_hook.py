"""The second hook: Python's audit events, for what import hooks miss.

An audit hook cannot be removed, and no other finder can get ahead of it.  It detects three events:

- The import of a framework begins: our finder is moved to the front again, wherever other packages
  (comet_ml, typeguard) have inserted theirs since.
- A framework is loaded but its hook was not called, because something loaded it without any finder
  or another thread was importing it when we were loaded: its hook is called now.
- Another program is about to start: the plan is made, so that the program inherits it.  Python
  reports os.execve and os.posix_spawn only after it has copied the environment given to them.  Such
  a program gets the variables set at import and, if it imports gpuconf, a plan of its own.

The alternative, wrapping every device-creating function from the start, would have to import the
framework.  Checking our finder's position on every import fails once another finder answers first.

The cost is one set lookup for each of Python's events, most of which do not concern us.  Importing
TensorFlow causes some 170,000 events, a step of Keras's fit two (counted by an audit hook, on
2.21).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from threading import local
from typing import Any, Protocol

from gpuconf.basics.environment import set_by_gpuconf
from gpuconf.basics.state_note import STATE_VARIABLE
from gpuconf.basics.terminal import debug
from gpuconf.session import import_hook

# multiprocessing and loky start programs through a C function without an audit event.  The modules
# that do so are imported right before the first start; see also has_missed_a_start.
_STARTERS = ("popen_spawn_posix", "popen_forkserver", "popen_loky_posix")
_PROGRAM_EVENTS = frozenset(
    {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"}
    | {"os.fork", "os.forkpty", "pty.spawn"}
)
# The events raised by an import of any Python file or library.
_IMPORT_EVENTS = frozenset({"import", "exec"})

_Handler = Callable[[str, tuple[Any, ...]], None]


class _Entrance(Protocol):
    """A function that creates a framework's devices: gpuconf.backends.wrapping.Entrance."""

    @property
    def module(self) -> str: ...

    @property
    def functions(self) -> tuple[str, ...]: ...

    @property
    def of_class(self) -> str | None: ...


class _Busy(local):
    """Whether this thread is catching up, which imports modules and must not trigger itself."""

    now = False


class AuditHook:
    """Calls ``before_program()``, and ``catch_up(name)`` for a framework imported without its hook.

    ``entrances`` maps each framework to the functions that create its devices.
    """

    def __init__(self, entrances: Mapping[str, _Entrance]) -> None:
        self._entrances = entrances
        self._before_program: Callable[[], None] | None = None
        self._catch_up: Callable[[str], None] = lambda _name: None
        self._watched: set[str] = set()
        self._is_set = False
        self._copies = False
        self._earlier: dict[str, set[str | None]] = {}  # values that variables had before a plan
        self._busy = _Busy()

    def arm(self, before_program: Callable[[], None], catch_up: Callable[[str], None]) -> None:
        """Start watching; the audit hook itself stays for the life of the process."""
        self._before_program, self._catch_up = before_program, catch_up
        if not self._is_set:
            self._is_set = True
            sys.addaudithook(_only(_IMPORT_EVENTS | _PROGRAM_EVENTS, self._on_event))
            if "subprocess" in sys.modules:
                self._copy_environments()

    def after_fork(self) -> None:
        """Resume watching in a forked child, even if its parent was catching up."""
        self._busy.now = False

    def disarm(self) -> None:
        """Stop watching."""
        self._before_program = None

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if self._before_program is None or self._busy.now or sys.is_finalizing():
            return
        try:
            self._look(event, args)
        except Exception as error:  # this runs inside the user's own import or program start
            debug(f"the audit hook failed at {event}: {error!r}")

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _IMPORT_EVENTS:
            if event == "import":
                self._on_import(str(args[0]))
            for name in import_hook.unmet():
                self._on_unmet(name)
        elif event in _PROGRAM_EVENTS:
            self._on_program(args[-1] if event == "subprocess.Popen" else None)

    def _on_import(self, name: str) -> None:
        import_hook.keep_first(name)
        if name == "subprocess":
            self._copy_environments()
        if name.rpartition(".")[2] in _STARTERS:
            self._on_program(None)

    def _on_program(self, environ: object) -> None:
        before_program = self._before_program
        if before_program is None:
            return
        before = {name: os.environ.get(name) for name in list(os.environ)}
        before_program()
        for name in (*set_by_gpuconf(os.environ), STATE_VARIABLE, "GPUCONF_PROFILE"):
            if os.environ.get(name) != before.get(name):
                self._earlier.setdefault(name, set()).add(before.get(name))
        _bring_up_to_date(environ, self._earlier)

    def _copy_environments(self) -> None:
        """Make `subprocess` pass on a copy of the dict that it is given as environment.

        The audit event has that copy, to which the plan is added; the caller's dict stays as it is.
        """
        if self._copies:
            return
        self._copies = True  # first: the import below is an event too
        import subprocess

        popen: Any = getattr(subprocess, "Popen", None)
        start: Any = getattr(popen, "_execute_child", None)  # private; it raises the audit event

        def _execute_child(process: Any, *args: Any, **kwargs: Any) -> Any:
            args = tuple(dict(each) if type(each) is dict else each for each in args)
            return start(process, *args, **kwargs)

        if start is not None:
            popen._execute_child = _execute_child

    def _on_unmet(self, name: str) -> None:
        if import_hook.is_whole(name):
            self._call_catch_up(name)
        elif name in self._entrances and name not in self._watched:
            self._watch_entrance(name)

    def _call_catch_up(self, name: str) -> None:
        try:
            self._busy.now = True
            self._catch_up(name)
        finally:
            self._busy.now = False

    def _watch_entrance(self, name: str) -> None:
        """Catch up no later than when devices are about to be created.

        There may be no event between the end of an import that bypassed our finder and the first
        device.
        """
        entrance = self._entrances[name]
        if not import_hook.is_whole(entrance.module):
            return
        self._watched.add(name)
        owner: Any = sys.modules[entrance.module]
        if entrance.of_class is not None:
            owner = getattr(owner, entrance.of_class, None)
        for function in entrance.functions:
            original = getattr(owner, function, None)
            if original is not None:
                setattr(owner, function, self._waking(name, owner, function, original))

    def _waking(self, name: str, owner: Any, function: str, original: Any) -> Any:
        """Wrap ``original`` so that the framework is caught up with before its first call."""

        def entrance(*args: Any, **kwargs: Any) -> Any:
            if getattr(owner, function) is not entrance or name not in import_hook.unmet():
                return original(*args, **kwargs)
            setattr(owner, function, original)
            self._call_catch_up(name)
            return getattr(owner, function)(*args, **kwargs)

        return entrance


def has_missed_a_start() -> bool:
    """Whether this process may have started others before, by a method that has only one event."""
    return any(name.rpartition(".")[2] in _STARTERS for name in list(sys.modules))


def _only(events: frozenset[str], handle: _Handler) -> _Handler:
    """Return an audit hook for these events only; all others, by far the most, cost one lookup."""

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event in events:
            handle(event, args)

    return watch


def _bring_up_to_date(environ: object, earlier: Mapping[str, set[str | None]]) -> None:
    """Add the variables that a program's environment was copied too early to contain.

    ``{**os.environ, "SEED": "1"}`` was built before the plan; an earlier note of ours in it shows
    that.  ``earlier`` has the values that os.environ had before the plans, so values that the
    caller has set or omitted stay as they are.
    """
    if type(environ) is not dict:
        return
    note = environ.get(STATE_VARIABLE)
    if note in (None, os.environ.get(STATE_VARIABLE)) or note not in earlier.get(
        STATE_VARIABLE, ()
    ):
        return
    for name, values in earlier.items():
        if environ.get(name) in values and name in os.environ:
            environ[name] = os.environ[name]
