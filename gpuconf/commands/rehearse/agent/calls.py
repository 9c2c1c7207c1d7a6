"""Shorten Keras's loops: ``fit`` to its steps, ``evaluate`` and ``predict`` to a batch or two.

Arrays are not shortened, because Keras puts them on the GPU in full. Epochs, callbacks and history
are Keras's own and are also kept. The result of ``predict`` has as many rows as the program
expects: the computed rows, repeated.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuconf.commands.rehearse.agent.batches import BatchWatcher
from gpuconf.commands.rehearse.agent.guards import LoopGuards
from gpuconf.commands.rehearse.agent.names import Names
from gpuconf.commands.rehearse.agent.phases import CALL, TRAIN, VALIDATE, Phase, Phases
from gpuconf.commands.rehearse.agent.steps import Steps
from gpuconf.commands.rehearse.agent.user_code import own_place
from gpuconf.support.keras_api import batches, nests, training
from gpuconf.support.keras_api.hooks import KerasHooks
from gpuconf.support.keras_api.patching import wrap
from gpuconf.support.keras_api.training import is_eager


class Calls:
    """Wraps methods of Keras models; ``before_training`` is called before each ``fit``."""

    def __init__(
        self,
        phases: Phases,
        steps: Steps,
        guards: LoopGuards,
        names: Names,
        *,
        before_training: Callable[[], None],
    ) -> None:
        self._phases = phases
        self._steps = steps
        self._guards = guards
        self._names = names
        self._before_training = before_training
        self.batches: BatchWatcher | None = None

    def watch(self, keras: str) -> None:
        """Wrap ``evaluate``, ``predict`` and the model calls of this Keras module."""
        for owner in training.trainer_classes(keras, in_graphs=True):
            wrap(owner, "evaluate", self._around_evaluate)
            wrap(owner, "predict", self._around_predict)
            for name in ("test_on_batch", "predict_on_batch"):
                wrap(owner, name, self._around_call)
        wrap(training.model_class(keras), "__call__", self._around_call, inherited=True)

    def fit(self, original: Any, bound: inspect.BoundArguments) -> Any:
        """Train until the steps are done, then end all epochs and validate one batch."""
        arguments = bound.arguments
        model = arguments["self"]
        self._before_training()
        batch = self.batches.used if self.batches is not None else None
        with self._inside(model, TRAIN, "fit", batch) as phase:
            stop = _Stop(model, phase, self._phases, self._guards.most)
            self._shorten(arguments)
            _add_callback(arguments, stop)
            self._guards.fits += 1
            try:
                result = original(*bound.args, **bound.kwargs)
            finally:
                self._guards.fits -= 1
                self._guards.cuts += 1
                self._names.gather()
                _remove_callback(arguments, stop)
        if stop.has_cut:
            self._guards.when_cut()
        return result

    def train_on_batch(self, original: Any, bound: inspect.BoundArguments) -> Any:
        """Run one step of the program's own loop."""
        self._before_training()
        model = bound.arguments["self"]
        batch = self.batches.used if self.batches is not None else None
        with self._inside(model, TRAIN, "train_on_batch", batch):
            return original(*bound.args, **bound.kwargs)

    def _inside(self, model: Any, kind: str, how: str, batch: int | None) -> Any:
        self._names.models.add(model)
        name = str(getattr(model, "name", type(model).__name__))
        what = f"{how} of {name}" if how else name
        key = (own_place(), self._steps.number(model), batch)
        return self._phases.inside(key, kind, what, batch=batch)

    def _shorten(self, arguments: dict[str, Any]) -> None:
        """Validate one batch, whenever training ends."""
        data = arguments.get("validation_data")
        if data is None and not arguments.get("validation_split"):
            return
        arguments["validation_freq"] = 1
        arguments["validation_steps"] = 1
        if data is None or batches.is_array(data):
            size = arguments.get("validation_batch_size") or arguments.get("batch_size")
            arguments["validation_batch_size"] = size or batches.DEFAULT_SIZE

    def _around_evaluate(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        kind = VALIDATE if self._guards.fits else "evaluate"
        return self._passed(kind, original, args, kwargs)

    def _around_predict(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        return self._passed("predict", original, args, kwargs)

    def _passed(self, kind: str, original: Any, args: Any, kwargs: Any) -> Any:
        """Evaluate or predict the first batch, and the last one if it is smaller."""
        try:
            bound = inspect.signature(original).bind(*args, **kwargs)
            size = _size_of(bound.arguments)
            if "_use_cached_eval_dataset" in bound.arguments.get("kwargs", ()):
                size = _Size(size.batch, 1)  # called by fit, which is already shortened
        except Exception:  # an unknown kind of data, or Python's own error
            return original(*args, **kwargs)
        self._steps.calls += 1
        with self._inside(args[0], kind, kind, size.batch) as phase:
            if phase["steps"] == 0:
                phase.update(steps=min(2, size.batches or 1), of=size.batches)
            if not size.is_cut:
                return original(*bound.args, **bound.kwargs)
            self._phases.cut(phase)
            self._guards.when_cut()
            result = _first(original, bound, size)
            if (last := size.last) is not None:
                bound.arguments.update(last, batch_size=size.batch, verbose=0)
                original(*bound.args, **bound.kwargs)
        return _filled(result, size) if kind == "predict" else result

    def _around_call(self, original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        """Record a model call outside of any step, since it may use the most memory."""
        if self._phases.is_open or not is_eager() or _is_symbolic(args):
            return original(model, *args, **kwargs)
        self._steps.calls += 1
        with self._inside(model, CALL, "", batches.examples(args[:1])):
            return original(model, *args, **kwargs)


class _Stop(KerasHooks):
    """A callback that stops a training run normally once its steps are done."""

    def __init__(self, model: Any, phase: Phase, phases: Phases, most: int) -> None:
        self._model = model
        self._phase = phase
        self._phases = phases
        self._began = phase["steps"]
        self._executions = 0
        # Later calls, in a loop over epochs, need only one step.
        self._most = most if self._began < most else 1
        self.has_cut = False

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        per_epoch = (params or {}).get("steps")
        if per_epoch and self._phase["of"] is None:
            self._phase["of"] = int(per_epoch) * int(params.get("epochs") or 1)

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        """Count the optimizers' steps; without an optimizer, count batches."""
        self._executions += 1
        self._phases.reach(self._phase, self._began + self._executions)
        wanted = self._phases.wanted(self._most) if self._most > 1 else self._most
        if self._phase["steps"] - self._began >= wanted:
            self._model.stop_training = self.has_cut = True
            if (self._phase["of"] or math.inf) > self._phase["steps"]:
                self._phases.cut(self._phase)

    def _implements_train_batch_hooks(self) -> bool:
        return True


class _Size(NamedTuple):
    """The extent of an evaluation or prediction; unknown values are None."""

    batch: int | None = None
    batches: int | None = None
    rows: int | None = None
    is_cut: bool = False
    last: dict[str, Any] | None = None  # arguments for the last batch, if it is smaller


def _size_of(arguments: dict[str, Any]) -> _Size:
    data: Any = arguments.get("x")
    steps = arguments.get("steps")
    if batches.is_dataset(data):
        batch = batches.dataset_batch(data)
        known = int(data.cardinality())
        count = steps or (known if known > 0 else None)
        rows = None if steps and known != steps else training.dataset_rows(data)
        rows = rows or (count * batch if count and batch else None)
        return _Size(batch, count, rows, count != 1)
    if data is not None and batches.is_sequence(data):
        return _size_of_sequence(data, steps)
    if batches.is_array(data):
        return _size_of_arrays(arguments, steps)
    if hasattr(data, "__next__") and steps:
        return _Size(None, steps, None, steps > 1)
    return _Size()


def _size_of_sequence(data: Any, steps: int | None) -> _Size:
    count = min(steps or len(data), len(data))
    if count <= 1:
        return _Size(batches.examples(data[0]), count)
    batch, last = batches.examples(data[0]), data[count - 1]
    rest = batches.examples(last)
    rows = None if batch is None or rest is None else (count - 1) * batch + rest
    if batch == rest:
        return _Size(batch, count, rows, is_cut=True)
    parts = last if isinstance(last, tuple) else (last,)
    return _Size(batch, count, rows, True, dict(zip(batches.PER_EXAMPLE, parts, strict=False)))


def _size_of_arrays(arguments: dict[str, Any], steps: int | None) -> _Size:
    rows = nests.count(arguments["x"])
    usual = math.ceil(rows / steps) if steps else batches.DEFAULT_SIZE
    batch = arguments.get("batch_size") or usual
    used = min(rows, steps * batch) if steps else rows
    count = math.ceil(used / batch)
    if count <= 1:
        return _Size(min(batch, rows), count)
    last = None
    if rest := used % batch:
        given = {name: arguments[name] for name in batches.PER_EXAMPLE if name in arguments}
        last = {name: nests.part(each, used - rest, used) for name, each in given.items()}
    return _Size(batch, count, used, True, last)


def _first(original: Any, bound: inspect.BoundArguments, size: _Size) -> Any:
    """Run only the first batch."""
    arguments = bound.arguments
    arguments["steps"] = 1
    if batches.is_array(arguments.get("x")):  # otherwise Keras would make one batch of all arrays
        arguments["batch_size"] = size.batch
    result = original(*bound.args, **bound.kwargs)
    del arguments["steps"]
    return result


def _filled(result: Any, size: _Size) -> Any:
    """Repeat rows up to the length of the full prediction, if it is known."""
    import numpy as np

    def fill(leaf: Any) -> Any:
        found = len(leaf) if isinstance(leaf, np.ndarray) and leaf.ndim else 0
        rows = size.rows or (size.batches or 0) * found
        is_per_example = found and found == (size.batch or found)
        return leaf[np.arange(rows) % found] if is_per_example and rows > found else leaf

    return nests.mapped(fill, result)


def _add_callback(arguments: dict[str, Any], stop: _Stop) -> None:
    given: Any = arguments.get("callbacks")
    if hasattr(given, "append") and not isinstance(given, list):  # Keras's own CallbackList
        given.append(stop)
    else:
        listed = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
        arguments["callbacks"] = [*listed, stop]


def _remove_callback(arguments: dict[str, Any], stop: _Stop) -> None:
    listed = getattr(arguments["callbacks"], "callbacks", None)
    if isinstance(listed, list) and stop in listed:
        listed.remove(stop)


def _is_symbolic(args: tuple[Any, ...]) -> bool:
    """Whether the call builds another model."""
    return any(type(leaf).__name__ == "KerasTensor" for leaf in nests.leaves(list(args)))
