"""TensorFlow 1's sessions: a run that applies an optimizer is a training step.

Every ``run`` comes by here, also that of a ``MonitoredSession``, of an ``Estimator`` and of Keras
in graph mode.  What a run does is read from its graph, once for each set of fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from gpuconf.keras_api import sessions
from gpuconf.keras_api.patching import wrap
from gpuconf.rehearsal.agent.record import AgentRecord
from gpuconf.rehearsal.agent.steps import Steps

_WHY_NOT = "a session is fed by a loop of the script's own"


class Sessions:
    """Counts the runs that train, and notes how many examples they are fed."""

    def __init__(self, record: AgentRecord, steps: Steps) -> None:
        self._record = record
        self._steps = steps
        # Of each graph, by the names of what is run: whether that trains.
        self._known: WeakKeyDictionary[Any, dict[tuple[str, ...], bool]] = WeakKeyDictionary()

    def watch(self) -> None:
        """See every run of a session."""
        owner = sessions.session_class()
        wrap(owner, sessions.RUN, self._around_run)
        wrap(owner, sessions.CALLABLE, self._around_callable)
        wrap(owner, sessions.CALLABLE_FROM_OPTIONS, self._around_options)

    def _around_run(self, original: Any, session: Any, *arguments: Any) -> Any:
        _, targets, fetches, feeds, *_ = arguments
        with self._run(session.graph, [*targets, *fetches], feeds.values()):
            return original(session, *arguments)

    def _around_callable(
        self, original: Any, session: Any, fetches: Any, feed_list: Any = None, *rest: Any, **k: Any
    ) -> Any:
        made = original(session, fetches, feed_list, *rest, **k)
        if feed_list is not None:
            return made  # which calls run()
        return self._watched(made, session.graph, sessions.elements_of(session.graph, fetches))

    def _around_options(self, original: Any, session: Any, options: Any) -> Any:
        names = (*options.target, *options.fetch)
        elements = sessions.elements_of(session.graph, names)
        return self._watched(original(session, options), session.graph, elements)

    def _watched(
        self, made: Callable[..., Any], graph: Any, elements: Sequence[Any]
    ) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self._run(graph, elements, args):
                return made(*args, **kwargs)

        return watched

    def _run(self, graph: Any, elements: Sequence[Any], fed: Iterable[Any]) -> Any:
        """The run of these, to be entered: a training step or none."""
        names = tuple(each.name for each in elements)
        known = self._known.setdefault(graph, {})
        if names not in known:
            known[names] = self._is_training(elements)
        return self._step(graph, names, fed) if known[names] else nullcontext()

    def _is_training(self, elements: Sequence[Any]) -> bool:
        try:
            return sessions.is_training(elements)
        except Exception as error:  # a graph of a kind that we do not know
            kind = type(error).__name__
            self._record.append("notes", f"a session's run could not be read: {kind}: {error}")
            return False

    @contextmanager
    def _step(self, graph: Any, names: tuple[str, ...], fed: Iterable[Any]) -> Iterator[None]:
        batch = _examples(fed)
        fact = {"kind": "session", "own": batch, "used": batch, "why_not": _WHY_NOT}
        fact["examples"] = None
        if self._record.facts.get("batch") != fact:
            self._record.update(batch=fact)
        with self._steps.one((id(graph), names), batch):
            yield


def _examples(fed: Iterable[Any]) -> int | None:
    """The leading dimension of what a run is fed; of several, the one that most of them have."""
    sizes = [int(each.shape[0]) for each in fed if getattr(each, "shape", ())]
    return max(sizes, key=sizes.count, default=None)
