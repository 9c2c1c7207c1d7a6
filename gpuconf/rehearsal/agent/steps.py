"""Counts training steps where every way to train comes by: where an optimizer is applied."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gpuconf.keras_api import training
from gpuconf.keras_api.patching import wrap
from gpuconf.rehearsal.agent.memory import MemoryTape
from gpuconf.rehearsal.agent.record import AgentRecord


class Steps:
    """Calls ``when_done()`` after ``most`` steps.

    Applied eagerly, an optimizer has made a step.  Under a trace, the ``tf.function`` that is
    being traced becomes a training function, and each call of it is a step, or as many as the
    optimizer's own counter went on by (``steps_per_execution``).  Of several optimizers (a GAN)
    the one that is furthest counts.  A session's run that trains is a step (`sessions`).
    """

    def __init__(
        self, record: AgentRecord, memory: MemoryTape, *, most: int, when_done: Callable[[], None]
    ) -> None:
        self._record = record
        self._memory = memory
        self._most = most
        self._when_done = when_done
        self._running: list[Any] = []  # the outermost tf.functions, of all threads
        self._training: dict[int, Any] = {}  # by id, those in which an optimizer was traced
        self._calls: dict[Hashable, int] = {}  # of a function, an eager optimizer, a session's run
        self._optimizers: dict[int, tuple[Any, int]] = {}  # with the counter it began at
        self._depth = threading.local()
        self.variables: dict[int, Any] = {}  # by id, those that optimizers were applied to

    def watch_functions(self) -> None:
        """See each outermost call of a ``tf.function``."""
        import tensorflow as tf

        wrap(training.function_class(), "__call__", self._around_function)
        wrap(tf.compat.v1.train.Optimizer, "apply_gradients", self._around_apply)

    def watch_optimizers(self, keras: str) -> None:
        """See each optimizer of this Keras being applied."""
        for owner in training.optimizer_classes(keras):
            # In Keras 3, apply_gradients only calls apply.
            method = "apply" if "apply" in vars(owner) else "apply_gradients"
            wrap(owner, method, self._around_apply)

    def _around_function(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self._depth, "value", 0) or not _is_eager():
            return original(function, *args, **kwargs)
        self._depth.value = 1
        self._running.append(function)
        try:
            if id(function) in self._training:
                self._memory.mark(f"step {self._record.facts['steps'] + 1}")
            result = original(function, *args, **kwargs)
        finally:
            self._depth.value = 0
            self._running.remove(function)
        if id(function) in self._training:
            self._count(id(function))
        return result

    def _around_apply(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = (optimizer, _iterations(optimizer) or 0)
        args = noted(args, self.variables)
        if not _is_eager():
            if self._running and not self._training:
                self._memory.mark("step 1")
            # All that run: under MirroredStrategy this is another thread than the caller's.
            self._training.update((id(function), function) for function in self._running)
            return original(optimizer, *args, **kwargs)
        nested = getattr(self._depth, "apply", 0)
        self._depth.apply = nested + 1
        try:
            result = original(optimizer, *args, **kwargs)
        finally:
            self._depth.apply = nested
        if not nested:  # LossScaleOptimizer applies the one within
            self._count(id(optimizer))
        return result

    @contextmanager
    def one(self, key: Hashable) -> Iterator[None]:
        """A step that is a call of its own, as a session's run is; one that fails is no step."""
        self._memory.mark(f"step {self._record.facts['steps'] + 1}")
        yield
        self._count(key)

    def optimizers(self) -> list[Any]:
        """The optimizers that were applied."""
        return [optimizer for optimizer, _ in self._optimizers.values()]

    def _count(self, key: Hashable) -> None:
        self._calls[key] = self._calls.get(key, 0) + 1
        counters = [
            (_iterations(optimizer) or 0) - began for optimizer, began in self._optimizers.values()
        ]
        steps = max(self._calls[key], *counters, self._record.facts["steps"])
        self._memory.mark(f"after step {steps}")
        self._record.update(steps=steps)
        if steps >= self._most:
            self._when_done()


def noted(args: tuple[Any, ...], variables: dict[int, Any]) -> tuple[Any, ...]:
    """Keep the variables, whose names identify layers, and return the arguments.

    What can be read once only, as ``zip(gradients, variables)``, becomes a list.  A variable can
    be iterated too, and stays what it is.
    """
    kept = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
    with suppress(Exception):  # things of a kind that we do not know
        for each in kept:
            for item in each if isinstance(each, list | tuple) else ():
                variable = item[1] if isinstance(item, tuple) and len(item) == 2 else item
                if hasattr(variable, "assign"):
                    variables[id(variable)] = variable
    return kept


def _is_eager() -> bool:
    import tensorflow as tf

    return bool(tf.executing_eagerly())


def _iterations(optimizer: Any) -> int | None:
    """The optimizer's own count of steps; None where it cannot be read now."""
    import tensorflow as tf

    try:
        with tf.init_scope():
            counter = optimizer.iterations
            return int(getattr(counter, "value", counter).numpy())
    except Exception:  # not built yet, in a graph of version 1, or no such thing
        return None
