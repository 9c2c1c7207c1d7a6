"""Decide when a loop in user code has run enough iterations.

A loop ends, as if it were exhausted, after an iteration with training steps, once each optimizer
involved has taken the requested number of steps in the loop. If the iteration contained a loop or
``fit`` that was itself shortened (epochs, folds, several models), the loop ends only after an
iteration without a new optimizer. So each of several models is trained, and a loop over epochs runs
two iterations, the second one short.

A loop over batches that calls a model without training is a validation loop, and ends just as
early. All other loops run in full, because they prepare the data.
"""

from __future__ import annotations

import builtins
import gc
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from gpuconf.commands.rehearse.agent.loops import AGAIN, TURNS
from gpuconf.commands.rehearse.agent.phases import Phases
from gpuconf.commands.rehearse.agent.steps import Steps
from gpuconf.commands.rehearse.agent.user_code import own_stack, place_of
from gpuconf.support.keras_api.batches import is_dataset, is_sequence

_MOST_TURNS = 12  # with a new optimizer in each: folds, models of a search
_PATIENCE_S = 60.0  # for a loop that calls models but does not iterate over batches


class LoopGuards:
    """Creates a guard for each loop that begins, and holds their shared state."""

    def __init__(
        self,
        steps: Steps,
        phases: Phases,
        *,
        most: int,
        when_cut: Callable[[], None],
        when_stuck: Callable[[], None],
    ) -> None:
        self.steps = steps
        self.phases = phases
        self.most = most
        self.when_cut = when_cut
        self._when_stuck = when_stuck
        self.cuts = 0  # of loops and calls of fit, so far
        self.fits = 0  # now running
        self.done: dict[str, set[int]] = {}  # by place: optimizers that need no more steps there
        self._alive: list[weakref.ref[_Guard]] = []
        self._elsewhere: Counter[tuple[tuple[str, int], ...]] = Counter()  # outside guarded loops

    def install(self) -> None:
        """Put the names that guarded code uses into builtins."""
        vars(builtins)[TURNS] = self._turns
        vars(builtins)[AGAIN] = self._again

    def counted(self) -> None:
        """Count a step.  In a loop that cannot be ended, the whole program ends after a few steps.

        Such loops are in ``python -c``, in compiled modules, and in other threads.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if self.fits or (is_main and any(each() is not None for each in self._alive)):
            return
        stack = own_stack()
        self._elsewhere[stack] += 1
        # A strategy's threads run the steps of a loop in the main thread, which ends before.
        most = self.phases.wanted(self.most) * (1 if is_main else 3)
        if self._elsewhere[stack] >= most:
            self._when_stuck()

    @property
    def is_training(self) -> bool:
        """Whether a loop with training steps is running."""
        return any(guard.has_trained for each in self._alive if (guard := each()) is not None)

    def _turns(self, iterable: Any) -> Any:
        """Return the iterable of a guarded ``for``."""
        if _is_left_alone():
            return iterable
        return self._noted(_ForGuard(self, _caller(), iterable))

    def _again(self) -> Callable[[], bool]:
        """Return the function that a guarded ``while`` calls before its condition."""
        if _is_left_alone():
            return _always
        guard: _WhileGuard = self._noted(_WhileGuard(self, _caller()))
        return guard.should_continue

    def _noted(self, guard: Any) -> Any:
        self._alive = [each for each in self._alive if each() is not None]
        self._alive.append(weakref.ref(guard))
        return guard


class _Guard:
    """One run of one loop."""

    def __init__(self, guards: LoopGuards, place: str, iterable: Any = None) -> None:
        self._guards = guards
        self._place = place
        self._iterable = iterable
        steps = guards.steps
        self._began = dict(steps.made)
        self._made = dict(steps.made)  # when this iteration began
        self._cuts, self._calls, self._tapes = guards.cuts, steps.calls, steps.tapes
        self._worked: set[int] = set()  # optimizers, in the iterations so far
        self._trained_turns = self._calling_turns = 0
        self._began_s = time.monotonic()

    @property
    def has_trained(self) -> bool:
        """Whether any steps were taken in this run of the loop."""
        return self._began != self._guards.steps.made

    def is_over(self) -> bool:
        """Whether the iteration that has ended was the last one; cheap if nothing was done."""
        steps = self._guards.steps
        if self._made == steps.made:
            if self._calls == steps.calls or self._guards.fits:
                return False
            return self._has_called_enough()
        worked = {key for key, count in steps.made.items() if self._made.get(key, 0) != count}
        return not self._guards.fits and self._has_trained_enough(worked)

    def _has_trained_enough(self, worked: set[int]) -> bool:
        guards = self._guards
        is_nested = guards.cuts != self._cuts
        fresh = worked - self._worked
        self._worked |= worked
        self._begin_iteration()
        self._trained_turns += 1
        if is_nested and fresh and self._trained_turns < _MOST_TURNS:
            return False
        wanted = guards.phases.wanted(guards.most)
        done = guards.done.setdefault(self._place, set())
        made = guards.steps.made
        is_enough = all(made[key] - self._began.get(key, 0) >= wanted for key in self._worked)
        if not is_enough and not worked <= done:
            return False
        done |= self._worked
        self._cut()
        return True

    def _has_called_enough(self) -> bool:
        """Whether a loop without steps is a validation loop that has seen enough batches."""
        guards = self._guards
        is_recorded = guards.steps.tapes != self._tapes  # gradients that are collected for a step
        if guards.is_training:
            guards.phases.validated()
        self._begin_iteration()
        if is_recorded or self._worked:
            return False
        self._calling_turns += 1
        if self._calling_turns < guards.most:
            return False
        is_long = time.monotonic() - self._began_s > _PATIENCE_S
        if not is_long and not _is_over_batches(self._iterable):
            return False
        self._cut()
        return True

    def _begin_iteration(self) -> None:
        guards = self._guards
        self._made = dict(guards.steps.made)
        self._cuts, self._calls = guards.cuts, guards.steps.calls
        self._tapes = guards.steps.tapes
        guards.phases.end_loop()

    def _cut(self) -> None:
        self._guards.cuts += 1
        self._guards.phases.cut_loop(self._worked)
        self._guards.when_cut()


class _ForGuard(_Guard):
    """The iterator of a guarded ``for``; it holds no element, so that each is freed in time."""

    def __init__(self, guards: LoopGuards, place: str, iterable: Any) -> None:
        super().__init__(guards, place, iterable)
        self._iterator = iter(iterable)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.is_over():
            raise StopIteration
        return next(self._iterator)


class _WhileGuard(_Guard):
    """The guard of a ``while``."""

    def should_continue(self) -> bool:
        """Whether another iteration may run."""
        return not self.is_over()


def _always() -> bool:
    return True


def _caller() -> str:
    frame = sys._getframe(2)
    return place_of(frame.f_code.co_filename, frame.f_lineno)


def _is_left_alone() -> bool:
    """Whether a loop must not be shortened: it is being traced, or runs in another thread."""
    if threading.current_thread() is not threading.main_thread():
        return True
    eagerly = getattr(sys.modules.get("tensorflow"), "executing_eagerly", None)
    if eagerly is None or eagerly():
        return False
    import tensorflow as tf

    return bool(tf.compat.v1.get_default_graph().building_function)


def _is_over_batches(iterable: Any) -> bool:
    """Whether a loop iterates over a dataset, even inside ``enumerate``, ``zip`` or tqdm."""
    if iterable is None or "tensorflow" not in sys.modules:
        return False
    import tensorflow as tf

    kinds = (tf.distribute.DistributedDataset, tf.distribute.DistributedIterator, tf.data.Iterator)
    if is_dataset(iterable) or is_sequence(iterable) or isinstance(iterable, kinds):
        return True
    inside = getattr(iterable, "iterable", None)  # tqdm
    if inside is not None:
        return inside is not iterable and _is_over_batches(inside)
    if not isinstance(iterable, (enumerate, zip, map)):
        return False
    parts = gc.get_referents(iterable)
    parts += [each for part in parts if isinstance(part, tuple) for each in part]  # zip's
    return any(_is_over_batches(part) for part in parts)
