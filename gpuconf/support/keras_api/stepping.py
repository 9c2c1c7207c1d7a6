"""Keras's own loops with our steps: one batch after another from Keras's iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_of, family_on_any_backend

Step = Callable[[Any], Any]

_COUNTERS = {"train": "_train_counter", "test": "_test_counter"}  # Keras 2's, for TensorBoard


def stepping(model: Any, **steps: Step) -> AbstractContextManager[None]:
    """Within the context, Keras's ``fit`` and ``evaluate`` call these steps for each batch.

    Steps are ``train=`` and ``test=``, and take a batch. See `calling` for backends that
    pass something else.
    """
    return calling(
        model, **{kind: _over_iterator(model, kind, step) for kind, step in steps.items()}
    )


@contextmanager
def calling(model: Any, **functions: Callable[..., Any]) -> Iterator[None]:
    """Within the context, Keras's ``fit`` and ``evaluate`` call these functions in their loops.

    The functions are ``train=`` and ``test=``. Keras creates its own in ``make_train_function`` and
    ``make_test_function``, which may be overridden; the originals are restored afterwards.
    """
    own = vars(model)
    names = {kind: f"{kind}_function" for kind in functions}
    # A callback may call us from within the loop, so the previous functions, Keras's or
    # ours, are restored.
    attributes = [*names.values(), *(f"make_{name}" for name in names.values())]
    before = {name: own[name] for name in attributes if name in own}
    for kind, name in names.items():
        own[f"make_{name}"] = _maker(own, name, functions[kind])
        own[name] = None
    try:
        yield
    finally:
        for name in attributes:
            own.pop(name, None)
        own.update(dict.fromkeys(names.values()) | before)


def is_called_by_us(model: Any) -> bool:
    """Whether Keras's ``fit`` is called within `calling`, for example by ``gpuconf.fit``."""
    return "make_train_function" in vars(model)


@contextmanager
def building_by(model: Any, read: Callable[[Any], Any]) -> Iterator[None]:
    """Within the context, Keras 3 builds the model from ``read`` applied to its loop's first batch.

    The batch is taken only where Keras would take it, because taking one affects the shuffling
    order.
    """
    build = model._symbolic_build

    def batches(iterator: Any) -> Iterator[Any]:
        for begin, end, found in iterator:
            data = found[0] if isinstance(found, (list, tuple)) else next(found)
            yield begin, end, [read(data)]

    vars(model)["_symbolic_build"] = lambda iterator: build(iterator=batches(iterator))
    try:
        yield
    finally:
        del vars(model)["_symbolic_build"]


def _maker(own: dict[str, Any], name: str, function: Any) -> Callable[..., Any]:
    def make(force: bool = False) -> Any:  # noqa: ARG001  # Keras's signature
        own[name] = function
        return function

    return make


def _over_iterator(model: Any, kind: str, step: Step) -> Callable[[Any], Any]:
    """Return a function that takes Keras's iterator and runs as many batches as one execution
    has."""
    counter = vars(model).get(_COUNTERS[kind])

    def function(iterator: Any) -> Any:
        import tensorflow as tf

        logs: Any = None
        for _ in range(_steps_per_execution(model)):
            try:
                data = iterator.get_next() if hasattr(iterator, "get_next") else next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                if logs is None:
                    raise
                break
            logs = step(without_optionals(data))
            if counter is not None:
                counter.assign_add(1)
        return logs

    return function


def _steps_per_execution(model: Any) -> int:
    """In Keras 2 this is a variable, which is reduced for the last steps of an epoch."""
    import tensorflow as tf

    steps = getattr(model, "steps_per_execution", None)
    return 1 if steps is None else int(tf.convert_to_tensor(steps))


def without_optionals(data: Any) -> Any:
    """The batch without the empty Optionals that Keras 3 passes for missing parts."""
    import tensorflow as tf

    def plain(leaf: Any) -> Any:
        return None if isinstance(leaf, tf.experimental.Optional) else leaf

    return nests.mapped(plain, data)


def compiled(model: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    """The step as Keras would run it, as a graph or eagerly, but never compiled by XLA.

    TensorFlow 2.21 does not survive an out-of-memory error in a compiled step. No model is rejected
    for having ``jit_compile=True``: on a GPU, Keras 3 resolves its default, "auto", to that.
    """
    import tensorflow as tf

    if model.run_eagerly:
        return step

    def function(*data: Any) -> Any:
        return model.distribute_strategy.run(step, args=data)

    if family_of(model).is_keras_3:  # Keras 2 lets users write ``if tensor:``
        function = tf.autograph.experimental.do_not_convert(function)
    # A partial, because TensorFlow counts traces by a function's code, and warns.
    made: Callable[..., Any] = tf.function(partial(function), reduce_retracing=True)
    return made


def check_strategy(model: Any, method: str) -> None:
    """Raise UsageError for a model that is distributed over several devices.

    ``method`` is the Keras method that supports such models: ``fit``, ``evaluate`` or ``predict``.
    """
    hint = f"model.{method}(...), with Keras's own loop"
    keras = family_on_any_backend(model).keras
    if getattr(getattr(keras, "distribution", None), "distribution", lambda: None)() is not None:
        raise UsageError(
            "Keras distributes the model across devices (keras.distribution), but batches can "
            "only be split on a single device",
            hint=hint,
        )
    strategy = getattr(model, "distribute_strategy", None)
    replicas = getattr(strategy, "num_replicas_in_sync", 1)
    if replicas > 1:
        raise UsageError(
            f"the model was created under a strategy with {replicas} replicas, but batches can "
            "only be split on a single device",
            hint=hint,
        )
