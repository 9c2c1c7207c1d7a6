"""Keras's own loops with steps of ours: batch after batch from its iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.keras_api import nests
from gpuconf.keras_api.families import family_of, family_on_any_backend

Step = Callable[[Any], Any]

_COUNTERS = {"train": "_train_counter", "test": "_test_counter"}  # Keras 2's, for TensorBoard


def stepping(model: Any, **steps: Step | None) -> AbstractContextManager[None]:
    """Inside, Keras's ``fit`` and ``evaluate`` call these (``train=``, ``test=``) for each batch.

    They are called with a batch; see `calling` for the backends that hand over something else.
    """
    given = {kind: step for kind, step in steps.items() if step is not None}
    return calling(
        model, **{kind: _over_iterator(model, kind, step) for kind, step in given.items()}
    )


@contextmanager
def calling(model: Any, **functions: Callable[..., Any]) -> Iterator[None]:
    """Inside, Keras's ``fit`` and ``evaluate`` call these (``train=``, ``test=``) in its loops.

    They make their functions by ``make_train_function`` and ``make_test_function``, which are
    there to be overridden; the model has its own again afterwards.
    """
    own = vars(model)
    names = {kind: f"{kind}_function" for kind in functions}
    # A callback may call us inside: what stands there is put back, Keras's or ours.
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


@contextmanager
def building_by(model: Any, read: Callable[[Any], Any]) -> Iterator[None]:
    """Inside, Keras 3 builds the model by what ``read`` makes of its loop's first batch.

    That batch is taken only where Keras would take it: it draws numbers for the next order.
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
    """What Keras calls with the iterator: so many batches as one execution has."""
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
    """In Keras 2 a variable, which is lowered for the last steps of an epoch."""
    import tensorflow as tf

    steps = getattr(model, "steps_per_execution", None)
    return 1 if steps is None else int(tf.convert_to_tensor(steps))


def without_optionals(data: Any) -> Any:
    """The batch, of which Keras 3 hands over missing parts as empty Optionals."""
    import tensorflow as tf

    def plain(leaf: Any) -> Any:
        return None if isinstance(leaf, tf.experimental.Optional) else leaf

    return nests.mapped(plain, data)


def compiled(model: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    """The step as Keras would run it: a graph, with XLA where the model says so, or eagerly."""
    import tensorflow as tf

    if model.run_eagerly:
        return step

    def function(*data: Any) -> Any:
        return model.distribute_strategy.run(step, args=data)

    if family_of(model).is_keras_3:  # Keras 2 lets users write ``if tensor:``
        function = tf.autograph.experimental.do_not_convert(function)
    is_jit = bool(getattr(model, "jit_compile", False))
    # A partial, because TensorFlow counts by its code how often a function is traced, and warns.
    made: Callable[..., Any] = tf.function(
        partial(function), reduce_retracing=True, jit_compile=True if is_jit else None
    )
    return made


def check_strategy(model: Any) -> None:
    """Raise UsageError for a model that lives on several devices."""
    keras = family_on_any_backend(model).keras
    if getattr(getattr(keras, "distribution", None), "distribution", lambda: None)() is not None:
        raise UsageError(
            "Keras distributes the model over devices (keras.distribution), and batches are "
            "halved for one device only",
            hint="model.evaluate(...), with Keras's own loop",
        )
    strategy = getattr(model, "distribute_strategy", None)
    replicas = getattr(strategy, "num_replicas_in_sync", 1)
    if replicas > 1:
        raise UsageError(
            f"the model was made under a strategy of {replicas} replicas, and batches are halved "
            "for one device only",
            hint="model.evaluate(...), with Keras's own loop",
        )
