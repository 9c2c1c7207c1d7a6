"""Phases of the program: building, training, validating, predicting, calling a model.

The parent reads the peaks of each phase from the tape, using the marks that are written
whenever the phase changes. A phase is identified by its key, so that all iterations of a loop count
as one phase.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from gpuconf.commands.rehearse.agent.memory import MemoryTape, bytes_in_use
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.commands.rehearse.agent.user_code import own_place

Phase = dict[str, Any]
BUILD, TRAIN, RUN, CALL, VALIDATE = "build", "train", "run", "call", "validate"
_GROWN_STEPS = 8  # if memory grew from the second to the third step: is it a leak?
_NOISE_BYTES = 64 * 1024
_LONGEST_LINE = 300
_MOST_PHASES = 200
_MOST_RETURNS = 500  # to one phase; more marks would cost too much time


class Phases:
    """The fact ``phases``, in the order of their first start, and the current phase.

    If only the first steps are rehearsed, everything counts as one phase, which is not recorded.
    """

    def __init__(self, record: AgentRecord, memory: MemoryTape, *, whole: bool) -> None:
        self.is_whole = whole
        self._record = record
        self._memory = memory
        self._by_key: dict[Hashable, Phase] = {}
        self._returns: dict[int, int] = {}
        self._made: dict[int, dict[int, int]] = {}  # by phase: steps of each optimizer
        self._open: list[Phase] = []
        self._lock = threading.RLock()
        self._all: list[Phase] = []
        self.steps = 0  # of all phases
        self._current = self._find(BUILD, BUILD, "the program before its first training run")
        self._loop: Phase | None = None  # a step in a custom loop, which no function encloses
        self._left: Phase | None = None  # the last that ended
        self._trained: Phase | None = None  # the last in which a step was made
        self._last_loop: Phase | None = None

    @property
    def is_open(self) -> bool:
        """Whether any phase other than building or the rest of the program is active."""
        return bool(self._open)

    @property
    def may_begin_loop(self) -> bool:
        """Whether a gradient tape may begin a step of a custom loop now."""
        return not self._open or self._current is self._loop

    @property
    def current(self) -> Phase:
        """The phase that everything belongs to now."""
        return self._current

    @contextmanager
    def inside(self, key: Hashable, kind: str, what: str, **facts: Any) -> Iterator[Phase]:
        """Enter a phase; the enclosing one continues afterwards."""
        phase = self.enter(key, kind, what, **facts)
        try:
            yield phase
        except Exception as error:
            self.note_error(error)
            raise
        finally:
            self.leave(phase)

    def enter(self, key: Hashable, kind: str, what: str, **facts: Any) -> Phase:
        """Begin a phase, or return to it."""
        if not self.is_whole:
            return self._current
        with self._lock:
            phase = self._find((kind, key), kind, what, **facts)
            self._open.append(phase)
            self._switch(phase)
            return phase

    def leave(self, phase: Phase) -> None:
        """End a phase, and all phases still open inside it."""
        if not self.is_whole:
            return
        with self._lock:
            if any(each is phase for each in self._open):
                del self._open[[each is phase for each in self._open].index(True) :]
            self._left = phase
            self._switch(self._open[-1] if self._open else self._base())

    def promote(self) -> None:
        """Mark the current phase as a training run."""
        with self._lock:
            if self._open and self._current["kind"] != TRAIN:
                self._current["kind"] = TRAIN
                self._write()

    def begin_loop(self, key: Hashable, what: str) -> None:
        """Begin what may become a step of a custom loop, if an update follows."""
        self.end_loop()
        self._loop = self.enter(key, CALL, what)

    def end_loop(self) -> None:
        """End the loop; a second optimizer's update may still belong to it."""
        if self._loop is not None:
            self._last_loop, self._loop = self._loop, None
            self.leave(self._last_loop)

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Enter the step that an optimizer's eager update belongs to, and end it."""
        if not self.is_open:
            last = self._last_loop
            if last is not None and last["kind"] == TRAIN:
                self._loop = last
                self._open.append(last)
                self._switch(last)
            else:
                self.begin_loop(own_place(), "an update")
        self.promote()
        try:
            yield
        finally:
            self.end_loop()

    def step(self, optimizer: int, count: int) -> None:
        """Add an optimizer's steps; a phase with several optimizers counts the highest number."""
        with self._lock:
            phase = self._trained = self._current
            made = self._made.setdefault(phase["number"], {})
            made[optimizer] = made.get(optimizer, 0) + count
            self.reach(phase, max(made.values()))

    def reach(self, phase: Phase, steps: int) -> None:
        """Record the number of steps done in a phase."""
        with self._lock:
            more = steps - phase["steps"]
            if more > 0:
                phase["steps"] = steps
                self.steps += more
                if (used := bytes_in_use()) is not None and self.is_whole:
                    phase["in_use"].append(used)

    def wanted(self, most: int) -> int:
        """The number of steps to run: more than ``most`` if memory has grown between steps."""
        used = [] if self._trained is None else self._trained["in_use"]
        if most < 3 or len(used) < 3:
            return most
        noise = max(_NOISE_BYTES, used[1] // 1000)  # counters and logs
        return max(most, _GROWN_STEPS) if used[2] - used[1] > noise else most

    def cut(self, phase: Phase) -> None:
        """Record that a phase was shortened."""
        if not phase["is_cut"]:
            phase["is_cut"] = True
            self._write()

    def cut_loop(self, optimizers: set[int]) -> None:
        """Record that the loop with these optimizers' steps, or the last call, was shortened."""
        for number, made in self._made.items():
            if optimizers & set(made):
                self.cut(self._all[number])
        if not optimizers and self._left is not None:
            self.cut(self._left)

    def validated(self) -> None:
        """Record that the model that was called last was validated during a training run."""
        if self._left is not None and self._left["kind"] == CALL:
            self._left["kind"] = VALIDATE
            self._write()

    def note_error(self, error: BaseException) -> None:
        """Record the first error of the current phase."""
        is_the_end = type(error).__name__ == "OutOfRangeError"  # the end of a session's data
        if self._current["error"] is None and not is_the_end:
            line = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._current["error"] = line[:_LONGEST_LINE]
            self._write()

    def _find(self, key: Hashable, kind: str, what: str, **facts: Any) -> Phase:
        found = self._by_key.get(key)
        if found is not None:
            return found
        if len(self._all) >= _MOST_PHASES:
            return self._base()
        phase: Phase = {
            "number": len(self._all),
            "kind": kind,
            "what": what,
            "where": None if kind in (BUILD, RUN) else own_place(),
            "batch": None,
            "steps": 0,
            "of": None,
            "is_cut": False,
            "in_use": [],
            "error": None,
            **facts,
        }
        self._all.append(phase)
        self._by_key[key] = phase
        self._write()
        return phase

    def _base(self) -> Phase:
        if any(phase["kind"] == TRAIN for phase in self._all):
            return self._by_key.get(RUN) or self._new_base()
        return self._all[0]

    def _new_base(self) -> Phase:
        if len(self._all) >= _MOST_PHASES:
            return self._all[0]
        return self._find(RUN, RUN, "the program after its first training run")

    def _switch(self, phase: Phase) -> None:
        if phase is self._current:
            return
        number = phase["number"]
        self._returns[number] = self._returns.get(number, 0) + 1
        self._current = phase
        if self._returns[number] <= _MOST_RETURNS:
            self._memory.mark(f"phase {number}")

    def _write(self) -> None:
        if self.is_whole:
            self._record.update(phases=self._all)
