"""Detects that a script starts training, in any way, before anything is trained."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuconf.basics import callsite
from gpuconf.commands.estimate.keras_models.data import Spec
from gpuconf.commands.estimate.scripts.step_function import StepFunction
from gpuconf.commands.estimate.scripts.training import (
    OnTraining,
    Training,
    of_fit,
    of_loop,
    of_train_on_batch,
    refused,
)
from gpuconf.errors import BackendError, GpuconfError
from gpuconf.session.import_hook import ImportHooks
from gpuconf.support.keras_api import nests, sessions, training
from gpuconf.support.keras_api.jit import note_jit_compile
from gpuconf.support.keras_api.patching import wrap
from gpuconf.support.keras_api.training import is_eager

_KERAS = ("keras", "tf_keras")
_THE_FIRST = (
    "this is the first training run; a later one may need more: `gpuconf rehearse` checks all"
)
_GRAPH = "TensorFlow 1 sessions are not traced"


class Watcher:
    """Calls ``on_training`` with the first training run, or ``on_error`` if it cannot be estimated.

    Neither may return, since the rest of the script must not run.  A process forked by the script
    trains normally.
    """

    def __init__(
        self, folder: Path, on_training: OnTraining, on_error: Callable[[GpuconfError], None]
    ) -> None:
        self._folder = folder
        self._on_training = on_training
        self._on_error = on_error
        self._process = os.getpid()
        self._known: dict[int, Any] = {}  # tf.functions that do not train
        self._tracing = False
        self._applied: list[Any] = []  # the optimizers seen by the trace
        self._variables: dict[int, Any] = {}
        self._called: list[tuple[Any, Any, Any]] = []  # models, inputs, outputs; the latest last
        self._losses: list[tuple[Any, Any]] = []  # with their targets
        self._depth = 0
        self._is_over = False

    def watch(self) -> None:
        """Watch the frameworks when they are imported, or now if they already are."""
        import tensorflow as tf

        wrap(training.function_class(), "__call__", self._around_function)
        wrap(tf.compat.v1.train.Optimizer, "apply_gradients", self._around_apply)
        wrap(sessions.session_class(), sessions.RUN, self._around_session)
        wrap(sessions.session_class(), sessions.CALLABLE_FROM_OPTIONS, self._around_callable)
        hooks = ImportHooks()
        for name in _KERAS:
            hooks.set(name, self._on_keras)
            if name in sys.modules:
                self._on_keras(sys.modules[name])
        for name in training.LOSS_MODULES:
            hooks.set(name, self._on_losses)
            if name in sys.modules:
                self._on_losses(sys.modules[name])

    def _on_keras(self, keras: ModuleType) -> None:
        backend = training.backend_of(keras)
        if backend != "tensorflow":
            self._on_error(
                BackendError(
                    f"the script's Keras runs on {backend}, but whole scripts can only be "
                    "estimated with TensorFlow",
                    hint=f"KERAS_BACKEND={backend} gpuconf estimate script.py:make_model",
                )
            )
        for owner in training.trainer_classes(keras.__name__):
            wrap(owner, "fit", self._around_trainer(of_fit))
            wrap(owner, "train_on_batch", self._around_trainer(of_train_on_batch))
        note_jit_compile(keras.__name__)
        training.wrap_updates(keras.__name__, self._around_apply)
        wrap(keras.layers.Layer, "__call__", self._around_call)
        wrap(keras.losses.Loss, "__call__", self._around_loss)
        self._on_losses(keras.losses)

    def _on_losses(self, losses: ModuleType) -> None:
        """Wrap the loss functions; each Keras losses module has its own names for them."""
        for name in _loss_functions(losses):
            wrap(losses, name, self._around_loss_function)

    def _around_trainer(self, of: Callable[[dict[str, Any], str], Training]) -> Any:
        def around(original: Any, *args: Any, **kwargs: Any) -> Any:
            if self._sees_nothing():
                return original(*args, **kwargs)
            if not is_eager():
                self._on_error(refused(_GRAPH, f"{original.__name__}() at {self._place()}"))
            bound = inspect.signature(original).bind(*args, **kwargs)
            self._found(lambda: of(bound.arguments, self._place()))
            return None

        return around

    def _found(self, read: Callable[[], Training]) -> None:
        """Pass on the training from ``read``; a GpuconfError there becomes the command's error."""
        self._is_over = True
        try:
            found = read()
        except GpuconfError as error:
            self._on_error(error)
        else:
            self._on_training(found._replace(notes=(*found.notes, _THE_FIRST)))

    def _sees_nothing(self) -> bool:
        """Whether to ignore a call: in another process, or after the first training run."""
        return self._is_over or os.getpid() != self._process

    def _place(self) -> str:
        """Return the innermost line of the script itself, such as ``train.py:41``."""
        site = callsite.user_call_site()
        return "?" if site is None else str(site).removeprefix(f"{self._folder}/")

    def _around_function(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Trace each function before its first call, to see whether it applies an optimizer."""
        if self._tracing or self._sees_nothing() or not is_eager() or id(function) in self._known:
            return original(function, *args, **kwargs)
        self._tracing = True
        self._applied, self._variables = [], {}
        try:
            function.get_concrete_function(*args, **kwargs)
        finally:
            self._tracing = False
        if self._applied:
            step = StepFunction(
                function, args, kwargs, tuple(self._applied), tuple(self._variables.values())
            )
            self._found(lambda: step.training(self._place()))
        self._known[id(function)] = function
        return original(function, *args, **kwargs)

    def _around_apply(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if self._sees_nothing():
            return original(optimizer, *args, **kwargs)
        pairs = [list(each) if hasattr(each, "__next__") else each for each in args]
        if self._tracing:
            if all(optimizer is not each for each in self._applied):
                self._applied.append(optimizer)
            self._variables.update((id(each), each) for each in training.variables_updated(pairs))
        elif is_eager():
            self._found(lambda: self._loop(optimizer, pairs))
        return original(optimizer, *pairs, **kwargs)

    def _loop(self, optimizer: Any, pairs: list[Any]) -> Training:
        """Return the most recently called model whose weights the optimizer was about to change."""
        place = self._place()
        trained = {id(each) for each in training.variables_updated(pairs)}
        for model, inputs, outputs in reversed(self._called):
            if trained & {id(each) for each in model.weights}:
                if self._losses:
                    loss, targets = self._losses[-1]
                    return of_loop(model, optimizer, loss, (inputs, targets), place)
                return of_loop(model, optimizer, None, (inputs, outputs), place)
        raise refused("no Keras model was called in it", f"the loop at {place}")

    def _around_call(self, original: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        if self._tracing or self._depth or self._sees_nothing() or not is_eager():
            return original(layer, *args, **kwargs)
        self._depth += 1
        try:
            result = original(layer, *args, **kwargs)
        finally:
            self._depth -= 1
        if args and hasattr(layer, "train_step"):
            self._called = [*self._called[-7:], (layer, _specs_of(args[0]), _specs_of(result))]
        return result

    def _around_loss(self, original: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        self._note_loss(loss, args)
        return original(loss, *args, **kwargs)

    def _around_loss_function(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._note_loss(original, args)
        return original(*args, **kwargs)

    def _note_loss(self, loss: Any, args: tuple[Any, ...]) -> None:
        if not (self._tracing or self._sees_nothing()) and args and is_eager():
            self._losses = [(loss, _specs_of(args[0]))]

    def _around_session(self, original: Any, session: Any, *args: Any, **kwargs: Any) -> Any:
        targets = [each for part in args[1:3] for each in part or ()]
        if not self._sees_nothing() and sessions.is_training(targets):
            self._on_error(refused(_GRAPH, f"session.run() at {self._place()}"))
        return original(session, *args, **kwargs)

    def _around_callable(self, original: Any, session: Any, options: Any, *args: Any) -> Any:
        """Check the callables that Keras creates from its functions in a TensorFlow 1 graph."""
        names = [*options.fetch, *options.target]
        targets = sessions.elements_of(session.graph, names)
        if not self._sees_nothing() and sessions.is_training(targets):
            self._on_error(refused(_GRAPH, f"Keras in a graph at {self._place()}"))
        return original(session, options, *args)


def _loss_functions(losses: ModuleType) -> list[str]:
    """Return the names of the losses that are functions, such as ``binary_crossentropy``."""
    functions = inspect.getmembers(losses, inspect.isfunction)
    return [name for name, each in functions if "y_true" in inspect.signature(each).parameters]


def _specs_of(nest: Any) -> Any:
    def spec(leaf: Any) -> Any:
        name = getattr(getattr(leaf, "dtype", None), "name", None)
        return leaf if name is None else Spec(tuple(leaf.shape), name)

    return nests.mapped(spec, nest)
