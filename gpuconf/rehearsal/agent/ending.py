"""How a rehearsed program ends: after its steps by us, or in its own way, of which we take note."""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from gpuconf.keras_api.patching import wrap
from gpuconf.rehearsal.agent.memory import MemoryTape
from gpuconf.rehearsal.agent.record import AgentRecord

_WAIT_FOR_THE_END_S = 30.0
_LONGEST_TEXT = 20_000
# How a dataset ends and how TensorFlow stops its threads; other errors are for the parent to judge.
_NO_FAILURES = ("OutOfRangeError", "CancelledError")
_NO_ATTRIBUTE = " has no attr named "  # how it asks a graph, hundreds of times


class Ending:
    """Notes errors as they are made, and writes the last word of a process."""

    def __init__(
        self, record: AgentRecord, memory: MemoryTape, *, before_the_end: Callable[[], None]
    ) -> None:
        self._record = record
        self._memory = memory
        self._before_the_end = before_the_end
        atexit.register(self._at_exit)

    def watch_errors(self) -> None:
        """Note TensorFlow's errors when they are made, caught by the program or not."""
        import tensorflow as tf

        def made(original: Any, error: Any, node: Any, op: Any, message: Any, *rest: Any) -> None:
            original(error, node, op, message, *rest)
            if type(error).__name__ not in _NO_FAILURES and _NO_ATTRIBUTE not in str(message):
                self._memory.mark("error")
                self._record.append("errors", self._described(error, str(message)))

        wrap(tf.errors.OpError, "__init__", made)

    def after_the_steps(self) -> NoReturn:
        """Write everything and wait to be killed: nothing of the program may run any more.

        Not ``sys.exit``: an ``except`` or ``finally`` of the program would save a model that saw
        three batches over the real one.  And not at once, because the shell script around this
        program would go on to its next line; the rehearsal kills all of them together.
        """
        self.finish("steps")
        _flush()
        time.sleep(_WAIT_FOR_THE_END_S)
        os._exit(0)

    def refuse(self, kind: str, message: str) -> NoReturn:
        """End a program that must not begin: the profile refuses the card as it is."""
        self._record.append("errors", {"type": kind, "message": message, "steps": 0})
        self._record.update(ended=kind)
        print(f"gpuconf: error: {message}", file=sys.stderr, flush=True)
        os._exit(1)

    def note_uncaught(self, error: BaseException, where: str | None) -> None:
        """Note the error that ends the program, and the line of the program it came from."""
        self._record.update(uncaught={**self._described(error, str(error)), "where": where})

    def _at_exit(self) -> None:
        """The interpreter's last act, after whatever handled an uncaught exception."""
        # Set before sys.excepthook is called, so the program's own hook may stay in place.
        error = getattr(sys, "last_value", None)
        if error is not None and "cells" not in self._record.facts:  # which noted its own
            frames = traceback.extract_tb(getattr(sys, "last_traceback", None))
            where = f"{frames[0].filename}:{frames[0].lineno}" if frames else None
            if isinstance(error, GeneratorExit | SystemExit):
                return
            self.note_uncaught(error, where)
        self.finish("exit")

    def finish(self, how: str) -> None:
        """Write everything that is known at the end."""
        # Only what has TensorFlow in it has devices, and only devices have limits.
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


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
