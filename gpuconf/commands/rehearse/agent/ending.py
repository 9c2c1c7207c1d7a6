"""How a rehearsed program ends: gpuconf ends it after its steps, or records how it ended."""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn

from gpuconf.commands.rehearse.agent import user_code
from gpuconf.commands.rehearse.agent.memory import MemoryTape
from gpuconf.commands.rehearse.agent.phases import Phases
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.support.keras_api.patching import wrap

_WAIT_FOR_THE_END_S = 30.0
_NOT_REAL = "its input would not come from a real training run"
_LONGEST_TEXT = 20_000
# Errors that end a dataset or stop TensorFlow's threads; the parent judges all others.
_NO_FAILURES = ("OutOfRangeError", "CancelledError")
_NO_ATTRIBUTE = " has no attr named "  # raised hundreds of times to query a graph


class Ending:
    """Records errors when they are raised, and writes a process's final facts."""

    def __init__(
        self,
        record: AgentRecord,
        memory: MemoryTape,
        phases: Phases,
        *,
        parent: int,
        before_the_end: Callable[[], None],
    ) -> None:
        self._record = record
        self._memory = memory
        self._phases = phases
        self._parent = parent
        self._before_the_end = before_the_end
        atexit.register(self._at_exit)

    @property
    def is_whole(self) -> bool:
        """Whether the program continues after its first steps."""
        return self._phases.is_whole

    def watch_errors(self) -> None:
        """Record TensorFlow's errors when they are constructed, even if the program catches one."""
        import tensorflow as tf

        def made(original: Any, error: Any, node: Any, op: Any, message: Any, *rest: Any) -> None:
            original(error, node, op, message, *rest)
            if type(error).__name__ not in _NO_FAILURES and _NO_ATTRIBUTE not in str(message):
                self._memory.mark("error")
                self._record.append("errors", self._described(error, str(message)))
                if type(error).__name__ == "ResourceExhaustedError":  # also if it is caught
                    self._phases.note_error(error)

        wrap(tf.errors.OpError, "__init__", made)

    def after_the_steps(self, what: str | None = None, why: str | None = None) -> NoReturn:
        """Write everything and wait to be killed: no code of the program may run anymore.

        ``what`` is the program's next action, and ``why`` the reason not to rehearse it.

        This is not ``sys.exit``, because an ``except`` or ``finally`` of the program could
        overwrite the real model with one trained for three batches.  It also does not exit at once,
        because a shell script around this program would continue with its next line; the rehearsal
        kills all of them together.
        """
        where = user_code.own_place()
        if self._phases.is_whole:
            what = what or f"everything after {where or 'the steps'}"
            why = why or "a training run that cannot be cut short in its own loop"
            self._record.append("not_run", {"where": where, "what": what, "why": why})
        self._record.update(ended_at=where)
        self.finish("steps")
        _flush()
        time.sleep(_WAIT_FOR_THE_END_S)
        os._exit(0)

    def refuse(self, kind: str, message: str) -> NoReturn:
        """End a program that must not start: the profile refuses the GPU in its current state."""
        self._record.append("errors", {"type": kind, "message": message, "steps": 0})
        self._record.update(ended=kind)
        print(f"gpuconf: error: {message}", file=sys.stderr, flush=True)
        os._exit(1)

    def note_uncaught(self, error: BaseException, where: str | None) -> None:
        """Record the error that ends the program, and the line of the program that raised it."""
        self._record.update(uncaught={**self._described(error, str(error)), "where": where})

    def _at_exit(self) -> None:
        """Runs last in the interpreter, after any handler of an uncaught exception."""
        # Set before sys.excepthook is called, so the program's own hook can stay in place.
        error = getattr(sys, "last_value", None)
        if error is not None and "cells" not in self._record.facts:  # cells record their own
            where = _where(getattr(sys, "last_traceback", None))
            if isinstance(error, GeneratorExit | SystemExit):
                return
            self.note_uncaught(error, where)
        elif self._has_a_shell():
            self.after_the_steps("what started this program, from here on", _NOT_REAL)
        self.finish("exit")

    def _has_a_shell(self) -> bool:
        """Whether the program's parent is not the rehearsal, and would continue with its results.

        The next line of a shell script might upload them.
        """
        is_trained = self.is_whole and self._phases.steps > 0
        return is_trained and os.getppid() != self._parent and "cells" not in self._record.facts

    def finish(self, how: str) -> None:
        """Write all facts at the end."""
        # Devices exist only with TensorFlow, and limits only with devices.
        if "tensorflow" in self._record.facts:
            self._memory.note_devices()
            self._try(self._memory.stop)
            self._try(self._before_the_end)
        self._record.update(ended=how)

    def _try(self, last: Callable[[], None]) -> None:
        try:
            last()
        except Exception as error:  # a profiler that the program has broken
            self._record.append("notes", f"at the end: {type(error).__name__}: {error}")

    def _described(self, error: BaseException, text: str) -> dict[str, Any]:
        op = getattr(error, "op", None)
        return {
            "type": type(error).__name__,
            "message": text[:_LONGEST_TEXT],
            "op": getattr(op, "name", None),
            "steps": self._record.facts["steps"],
        }


def _where(trace: TracebackType | None) -> str | None:
    """The innermost line of user code; if there is none, the line where the error surfaced."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if user_code.is_own(frame.filename)] or frames[:1]
    return user_code.place_of(own[-1].filename, own[-1].lineno or 0) if own else None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
