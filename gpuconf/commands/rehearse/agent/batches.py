"""Observes the training batch, and changes it on its way into ``fit`` or ``train_on_batch``.

The report shows the number of examples per step; a second run with a different batch size gives the
second point on the line. The batches of a custom training loop cannot be changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from gpuconf.commands.rehearse.agent import resizing
from gpuconf.commands.rehearse.agent.names import Names
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.support.keras_api import batches, training
from gpuconf.support.keras_api.patching import wrap

# Calls Keras's own function, which is the first argument.
Call = Callable[[Any, inspect.BoundArguments], Any]


class BatchWatcher:
    """Records each training run's batch as the fact ``batch``; with ``wanted``, changes it.

    A larger batch means fewer steps per epoch, so ``fit`` may end before the rehearsal does.  Then,
    after at least one step, ``when_over`` is called, which must not return. The program's next
    actions, such as saving the model, must not run for a model trained with a different batch size.

    The fact has ``kind`` (of the data), ``own`` (the program's number of examples per step),
    ``used``, ``why_not`` (the reason if it cannot be changed) and ``examples`` (their total
    number); unknown values are None.
    """

    def __init__(
        self,
        record: AgentRecord,
        names: Names,
        *,
        wanted: int | None,
        when_over: Callable[[], None],
        calls: dict[str, Call] | None = None,
    ) -> None:
        self._record = record
        self._names = names
        self._wanted = wanted
        self._when_over = when_over
        self._calls = calls or {}
        self.used: int | None = None  # of the latest training

    def watch(self, keras: str) -> None:
        """Wrap ``fit`` and ``train_on_batch`` of this Keras module."""
        for owner in training.trainer_classes(keras, in_graphs=True):
            wrap(owner, "fit", self._around("fit", self._before_fit))
            wrap(owner, "train_on_batch", self._around("train_on_batch", self._before_step))

    def _around(self, name: str, prepare: Callable[[dict[str, Any]], None]) -> Callable[..., Any]:
        call = self._calls.get(name, _call)

        def around(original: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                bound = inspect.signature(original).bind(*args, **kwargs)
            except TypeError:
                return original(*args, **kwargs)  # Python's own error
            self._names.models.add(args[0])
            try:
                prepare(bound.arguments)
            except Exception as error:  # unknown kinds of data stay unchanged
                self._note("unknown", None, None, f"{type(error).__name__}: {error}")
            result = call(original, bound)
            if self._ends_after(name):
                self._when_over()
            return result

        return around

    def _ends_after(self, name: str) -> bool:
        """Whether training with another batch size is over, in a run that needs only its steps."""
        is_enough = bool(self._wanted) and bool(self._record.facts["steps"])
        return name == "fit" and is_enough and not self._calls

    def _before_fit(self, arguments: dict[str, Any]) -> None:
        data = arguments.get("x")
        if batches.is_dataset(data):
            own = batches.dataset_batch(data)
            there = batches.dataset_examples(data, own)
            self._change(arguments, "tf.data", own, lambda n: resizing.dataset(data, n), there)
        elif data is not None and batches.is_sequence(data):
            own = batches.examples(data[0])
            self._change(arguments, "sequence", own, lambda n: resizing.sequence(data, own, n))
        elif isinstance(data, Iterator):
            self._fit_from(arguments, data)
        elif batches.is_array(data):
            self._fit_arrays(arguments, data)
        else:
            why_not = f"fit() was given a {type(data).__module__}.{type(data).__name__}"
            self._note("other", None, None, why_not)

    def _change(
        self,
        arguments: dict[str, Any],
        kind: str,
        own: int | None,
        change: Callable[[int], Any],
        there: int | None = None,
    ) -> None:
        """Give fit() different data if requested; ``there`` is the number of examples available."""
        used = own
        if self._wanted is not None and self._wanted != own:
            arguments["x"] = change(self._wanted)
            used = self._wanted
        self._note(kind, own, used, examples=there)

    def _fit_from(self, arguments: dict[str, Any], data: Iterator[Any]) -> None:
        """Read a generator's batch size from its first batch, which must not be lost."""
        arguments["x"] = resizing.generator(
            data, self._wanted, lambda own: self._note("generator", own, self._wanted or own)
        )

    def _fit_arrays(self, arguments: dict[str, Any], data: Any) -> None:
        own = arguments.get("batch_size") or batches.DEFAULT_SIZE
        if self._wanted is not None:
            arguments["batch_size"] = self._wanted
        there = batches.examples(data) or own
        used = min(self._wanted or own, there)
        self._note("arrays", min(own, there), used, examples=there)

    def _before_step(self, arguments: dict[str, Any]) -> None:
        own = batches.examples(arguments.get("x"))
        if own is None or self._wanted is None or self._wanted == own:
            self._note("train_on_batch", own, own)
            return
        for name in batches.PER_EXAMPLE:
            if arguments.get(name) is not None:
                arguments[name] = resizing.repeated(arguments[name], self._wanted)
        self._note("train_on_batch", own, self._wanted)

    def _note(
        self,
        kind: str,
        own: int | None,
        used: int | None,
        why_not: str | None = None,
        *,
        examples: int | None = None,
    ) -> None:
        fact = {
            "kind": kind,
            "own": own,
            "used": used,
            "why_not": why_not,
            "examples": examples,
        }
        self.used = used
        # In a whole program, the first training counts; runs for other batches end within it.
        is_later = bool(self._calls) and bool(self._record.facts["steps"])
        if self._record.facts.get("batch") != fact and not is_later:
            self._record.update(batch=fact)


def _call(original: Any, bound: inspect.BoundArguments) -> Any:
    return original(*bound.args, **bound.kwargs)
