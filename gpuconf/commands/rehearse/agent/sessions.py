"""TensorFlow 1 sessions: a run that applies an optimizer is a training step.

Every ``run`` goes through here, including those of ``MonitoredSession`` and Keras in graph mode.
The graph shows what a run does; it is read once for each set of fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from gpuconf.commands.rehearse.agent.phases import CALL, Phases
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.commands.rehearse.agent.steps import Steps
from gpuconf.commands.rehearse.agent.user_code import own_place
from gpuconf.support.keras_api import sessions
from gpuconf.support.keras_api.patching import wrap
from gpuconf.support.keras_api.sessions import SessionRun

_WHY_NOT = "a session is fed by the script's own loop"
_UNKNOWN = SessionRun("other", "", frozenset())


class Sessions:
    """Counts the runs that train, and records the number of examples that they are fed.

    ``before_training`` is called before a ``MonitoredSession`` is created, since that saves at
    once.
    """

    def __init__(
        self,
        record: AgentRecord,
        phases: Phases,
        steps: Steps,
        *,
        before_training: Callable[[], None],
    ) -> None:
        self._record = record
        self._phases = phases
        self._steps = steps
        self._before_training = before_training
        # For each graph, by the names of the fetches.
        self._known: WeakKeyDictionary[Any, dict[tuple[str, ...], SessionRun]] = WeakKeyDictionary()

    def watch(self) -> None:
        """Wrap every session run."""
        owner = sessions.session_class()
        wrap(owner, sessions.RUN, self._around_run)
        wrap(owner, sessions.CALLABLE, self._around_callable)
        wrap(owner, sessions.CALLABLE_FROM_OPTIONS, self._around_options)
        wrap(sessions.monitored_class(), "__init__", self._around_monitored)

    def _around_monitored(self, original: Any, *args: Any, **kwargs: Any) -> None:
        self._before_training()
        original(*args, **kwargs)

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

    def _run(
        self, graph: Any, elements: Sequence[Any], fed: Iterable[Any]
    ) -> AbstractContextManager[Any]:
        """The context of a run: a training step, a call, or something else."""
        names = tuple(each.name for each in elements)
        known = self._known.setdefault(graph, {})
        if names not in known:
            known[names] = self._read(elements)
        run = known[names]
        if run.kind == "training":
            return self._step(graph, run, _examples(fed))
        if run.kind == "other" or self._phases.is_open:
            return nullcontext()
        self._steps.calls += 1
        batch = _examples(fed)
        key, what = (own_place(), id(graph), run.operations, batch), f"sess.run of {run.what}"
        return self._phases.inside(key, CALL, what, batch=batch)

    def _read(self, elements: Sequence[Any]) -> SessionRun:
        try:
            return sessions.run_of(elements)
        except Exception as error:  # an unknown kind of graph
            kind = type(error).__name__
            self._record.append("notes", f"a session's run could not be read: {kind}: {error}")
            return _UNKNOWN

    @contextmanager
    def _step(self, graph: Any, run: SessionRun, batch: int | None) -> Iterator[None]:
        fact = {"kind": "session", "own": batch, "used": batch, "why_not": _WHY_NOT}
        fact["examples"] = None
        if self._record.facts.get("batch") != fact:
            self._record.update(batch=fact)
        with self._steps.one((id(graph), run.operations), f"sess.run of {run.what}", batch):
            yield


def _examples(fed: Iterable[Any]) -> int | None:
    """The leading dimension of the fed values; if they differ, the most frequent one."""
    sizes = [int(each.shape[0]) for each in fed if getattr(each, "shape", ())]
    return max(sizes, key=sizes.count, default=None)
