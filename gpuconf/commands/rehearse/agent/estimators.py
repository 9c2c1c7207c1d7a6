"""``tf.estimator``, part of TensorFlow until 2.15: its own hooks shorten its loops."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from gpuconf.commands.rehearse.agent.guards import Guards
from gpuconf.commands.rehearse.agent.own_code import own_place
from gpuconf.commands.rehearse.agent.phases import TRAIN, Phases
from gpuconf.support.keras_api.patching import wrap

MODULE = "tensorflow_estimator.python.estimator.estimator"


class Estimators:
    """Shortens estimators' training, evaluation and prediction to the ordered number of steps."""

    def __init__(self, phases: Phases, guards: Guards) -> None:
        self._phases = phases
        self._guards = guards

    def watch(self, module: ModuleType) -> None:
        """Wrap the methods of estimators in their module."""
        wrap(module.Estimator, "train", self._around_train)
        wrap(module.Estimator, "evaluate", self._around_evaluate)
        wrap(module.Estimator, "predict", self._around_predict)

    def _around_train(self, original: Any, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        self._guards.when_cut()  # it saves before its first step
        bound = _bound(original, estimator, args, kwargs)
        with self._phases.inside(own_place(), TRAIN, f"train of {_name(estimator)}") as phase:
            _add_hook(bound, self._guards.most)
            phase["of"] = bound.arguments.get("steps") or bound.arguments.get("max_steps")
            self._phases.cut(phase)
            self._guards.fits += 1
            try:
                return original(*bound.args, **bound.kwargs)
            finally:
                self._guards.fits -= 1
                self._guards.cuts += 1

    def _around_evaluate(self, original: Any, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        bound = _bound(original, estimator, args, kwargs)
        what = f"evaluate of {_name(estimator)}"
        with self._phases.inside(own_place(), "evaluate", what) as phase:
            steps = bound.arguments.get("steps")
            phase["of"] = steps
            bound.arguments["steps"] = min(steps or self._guards.most, self._guards.most)
            self._phases.cut(phase)
            return original(*bound.args, **bound.kwargs)

    def _around_predict(self, original: Any, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Each run of the generator is a call."""
        bound = _bound(original, estimator, args, kwargs)
        _add_hook(bound, self._guards.most)
        return original(*bound.args, **bound.kwargs)


def _bound(
    original: Any, estimator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    return inspect.signature(original).bind(estimator, *args, **kwargs)


def _add_hook(bound: inspect.BoundArguments, most: int) -> None:
    bound.arguments["hooks"] = [*(bound.arguments.get("hooks") or ()), _stop_after(most)]


def _stop_after(most: int) -> Any:
    """A hook that ends a session after ``most`` runs."""
    import tensorflow as tf

    class StopAfter(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
        def __init__(self) -> None:
            self._runs = 0

        def after_run(self, run_context: Any, _: Any) -> None:
            self._runs += 1
            if self._runs >= most:
                run_context.request_stop()

    return StopAfter()


def _name(estimator: Any) -> str:
    return type(estimator).__name__.removesuffix("V2")
