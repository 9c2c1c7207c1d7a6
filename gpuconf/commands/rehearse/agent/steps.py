"""Count training steps at the point that all training passes through: the optimizer's update."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from gpuconf.commands.rehearse.agent.memory import MemoryTape
from gpuconf.commands.rehearse.agent.names import Names, noted
from gpuconf.commands.rehearse.agent.phases import CALL, TRAIN, Phases
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.commands.rehearse.agent.user_code import own_frame, own_place
from gpuconf.support.keras_api import training
from gpuconf.support.keras_api.patching import wrap
from gpuconf.support.keras_api.training import is_eager


class Steps:
    """Calls ``when_counted()`` after each step.

    An optimizer that is applied eagerly has taken a step. If the optimizer is applied during
    tracing, the ``tf.function`` that is being traced becomes a training function. Each call to it
    then counts as one step, or as many as the optimizer's own counter increased by
    (``steps_per_execution``). A session run that trains counts as a step (`sessions`).

    ``made`` holds the number of steps of each optimizer, by gpuconf's own number for it. ``calls``
    counts the models and functions called outside of any step, and ``tapes`` the gradient tapes.
    """

    def __init__(
        self,
        record: AgentRecord,
        memory: MemoryTape,
        phases: Phases,
        names: Names,
        *,
        when_counted: Callable[[], None],
    ) -> None:
        self._record = record
        self._memory = memory
        self._phases = phases
        self._names = names
        self._when_counted = when_counted
        self._running: list[Any] = []  # the outermost tf.functions of all threads
        # Functions in which optimizers were traced, with these optimizers.
        self._training: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()
        self._counters: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # last seen, by optimizer
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._by_key: dict[Hashable, int] = {}
        self._next = itertools.count()
        self._depth = threading.local()
        self.made: dict[int, int] = {}
        self.calls = 0
        self.tapes = 0

    def watch_functions(self) -> None:
        """Wrap each outermost call of a ``tf.function``."""
        import tensorflow as tf

        wrap(training.function_class(), "__call__", self._around_function)
        wrap(tf.compat.v1.train.Optimizer, "apply_gradients", self._around_apply)
        wrap(tf.GradientTape, "__enter__", self._around_tape)
        wrap(tf.GradientTape, "__exit__", self._after_tape)

    def watch_optimizers(self, keras: str) -> None:
        """Wrap the update of each optimizer of this Keras module."""
        training.wrap_updates(keras, self._around_apply)

    def number(self, thing: Any) -> int:
        """gpuconf's number for a model, function or optimizer; an ``id`` may be reused."""
        return self._numbers.setdefault(thing, next(self._next))

    def count(self, optimizers: Iterable[Any]) -> None:
        """Count an update by each of these: one step, or several in one execution."""
        for optimizer in optimizers:
            counter = _iterations(optimizer)
            known = self._counters.get(optimizer, 0)
            self._counters[optimizer] = known + 1 if counter is None else counter
            number, more = self.number(optimizer), max(1, (counter or 0) - known)
            if number not in self.made:
                self._names.gather()  # its slots exist now
            self._made(number, more)
        self._counted()

    @contextmanager
    def one(self, key: Hashable, what: str, batch: int | None) -> Iterator[None]:
        """A step that is a single call, such as a session run; a failed step is not counted."""
        number = self._by_key.setdefault(key, next(self._next))
        phase = self._phases.inside((own_place(), number), TRAIN, what, batch=batch)
        with nullcontext() if self._phases.is_open else phase:  # within fit()
            self._memory.mark(f"step {self._phases.steps + 1}")
            yield
            self._made(number, 1)
            self._counted()

    def _made(self, number: int, more: int) -> None:
        self.made[number] = self.made.get(number, 0) + more
        self._phases.step(number, more)

    def _counted(self) -> None:
        self._memory.mark(f"after step {self._phases.steps}")
        self._record.update(steps=self._phases.steps)
        self._when_counted()

    def _around_function(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self._depth, "value", 0) or not is_eager():
            return original(function, *args, **kwargs)
        with self._phase_of(function):
            self._depth.value = 1
            self._running.append(function)
            try:
                if function in self._training:
                    self._memory.mark(f"step {self._phases.steps + 1}")
                result = original(function, *args, **kwargs)
            finally:
                self._depth.value = 0
                self._running.remove(function)
            if function in self._training:
                self.count(list(self._training[function]))
                self._phases.end_loop()
        return result

    def _phase_of(self, function: Any) -> AbstractContextManager[Any]:
        """The phase of a function that is called outside of any other: a step, or a call."""
        if self._phases.is_open:
            return nullcontext()
        self.calls += 1
        what = str(getattr(function, "__name__", "a tf.function"))
        return self._phases.inside((own_place(), self.number(function)), CALL, what)

    def _around_tape(self, original: Any, tape: Any) -> Any:
        """Begin a possible step: eager recording may be part of one."""
        self.tapes += 1
        active = getattr(self._depth, "tapes", 0)
        if not active and is_eager() and self._phases.may_begin_loop:
            frame = own_frame()
            name = "a loop" if frame is None else frame.f_code.co_name
            self._phases.begin_loop(own_place(), "a loop" if name == "<module>" else name)
        self._depth.tapes = active + 1
        return original(tape)

    def _after_tape(self, original: Any, *args: Any) -> Any:
        self._depth.tapes = max(0, getattr(self._depth, "tapes", 0) - 1)
        return original(*args)

    def _around_apply(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        self._names.optimizers.add(optimizer)
        self._counters.setdefault(optimizer, _iterations(optimizer) or 0)
        args = noted(args, self._names.variables)
        if not is_eager():
            if not self._running:  # a session's graph does not keep its optimizer
                self._names.kept.append(optimizer)
            self._phases.promote()
            if any(function not in self._training for function in self._running):
                self._memory.mark(f"step {self._phases.steps + 1}")
            # All running ones: under MirroredStrategy, this thread is not the caller's.
            for function in self._running:
                self._training.setdefault(function, WeakSet()).add(optimizer)
            return original(optimizer, *args, **kwargs)
        if getattr(self._depth, "apply", 0):  # LossScaleOptimizer applies its inner optimizer
            return original(optimizer, *args, **kwargs)
        with self._phases.updating():
            self._depth.apply = 1
            try:
                result = original(optimizer, *args, **kwargs)
            finally:
                self._depth.apply = 0
            self.count([optimizer])
        return result


def _iterations(optimizer: Any) -> int | None:
    """The optimizer's own step counter; None if it cannot be read now."""
    import tensorflow as tf

    try:
        with tf.init_scope():
            counter = optimizer.iterations
            return int(getattr(counter, "value", counter).numpy())
    except Exception:  # not built yet, in a TF1 graph, or without a counter
        return None
