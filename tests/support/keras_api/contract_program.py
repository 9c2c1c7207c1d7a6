"""Holds the table of private names against the installed TensorFlow and Keras: each missing one.

`python -m tests.support.keras_api.contract_program` needs no pytest, so that `make matrix` can run
it in an environment that has nothing but TensorFlow and gpuconf.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any

from tests.support.keras_api.contract import ANY_KERAS, KERAS_2, KERAS_3, NAMES, TENSORFLOW, Name


def main() -> int:
    """Print a line for each name that is missing, and exit 1 if one is."""
    lines = [*missing_in_tensorflow()]
    for name in ("keras", "tf_keras"):
        try:
            keras = importlib.import_module(name)
        except ImportError:
            continue
        lines += missing_in_keras(keras)
    print("\n".join(lines) or f"all {len(NAMES)} names are there")
    return 1 if lines else 0


def missing_in_tensorflow() -> Iterator[str]:
    """A line for each name of TensorFlow that the installed one lacks."""
    import tensorflow as tf

    rows = [row for row in NAMES if row.of == TENSORFLOW and _applies(row, tf.__version__)]
    yield from _missing(rows, f"tensorflow {tf.__version__}", _OF_TENSORFLOW)


def missing_in_keras(keras: ModuleType) -> Iterator[str]:
    """A line for each name that this Keras lacks, of those that its version should have."""
    version = str(keras.__version__)
    kinds = {ANY_KERAS, KERAS_3 if version.startswith("3") else KERAS_2, keras.__name__}
    rows = [row for row in NAMES if row.of in kinds and _applies(row, version)]
    objects = {kind: cache(partial(make, keras)) for kind, make in _OF_KERAS.items()}
    yield from _missing(rows, f"{keras.__name__} {version}", objects)


def _applies(row: Name, version: str) -> bool:
    here = _numbers(version)
    return (not row.since or here >= _numbers(row.since)) and (
        not row.until or here < _numbers(row.until)
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _missing(
    rows: list[Name], where: str, objects: Mapping[str, Callable[[], Any]]
) -> Iterator[str]:
    for row in rows:
        try:
            owner = objects[row.owner]() if row.owner in objects else _imported(row.owner)
            is_there = any(_has(owner, name) for name in row.name.split("|"))
            why = ""
        except Exception as error:  # whatever a future version raises
            is_there, why = False, f" ({type(error).__name__}: {error})"
        if not is_there:
            yield f"{where} has no {row.owner} {row.name}{why}: {row.without}"


def _imported(place: str) -> Any:
    module, _, cls = place.partition(":")
    found: Any = importlib.import_module(module)
    return getattr(found, cls) if cls else found


def _has(owner: Any, name: str) -> bool:
    """Of a Keras's package the names are modules below it."""
    if not name.startswith("src."):
        return hasattr(owner, name)
    try:
        _imported(f"{owner.__name__}.{name}")
    except (ImportError, AttributeError):
        return False
    return True


def _context() -> Any:
    import tensorflow as tf
    from tensorflow.python.eager import context

    tf.constant(1.0)
    return context.context()


def _session() -> Any:
    import tensorflow as tf

    return tf.compat.v1.Session(graph=tf.Graph())


def _graph() -> Any:
    import tensorflow as tf

    return tf.function(lambda: tf.constant(1.0)).get_concrete_function().graph


def _function() -> Any:
    import tensorflow as tf

    return tf.function(lambda: None)


def _strategy() -> Any:
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["CPU:0"]).extended


def _dataset() -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(4).batch(2)


_OF_TENSORFLOW: dict[str, Callable[[], Any]] = {
    "<context>": _context,
    "<session>": _session,
    "<graph>": _graph,
    "<function>": _function,
    "<mirrored strategy>": _strategy,
    "<batched dataset>": _dataset,
}


def _functional(keras: Any) -> Any:
    given = keras.Input((3,))
    outputs = [keras.layers.Dense(2, name=name)(given) for name in "ab"]
    return keras.Model(given, outputs)


def _sequential(keras: Any) -> Any:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


def _called(keras: Any) -> Any:
    import tensorflow as tf

    class Called(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    model = Called()
    model(tf.zeros([4, 3]))
    return model


@cache
def _compiled(keras: Any) -> Any:
    import tensorflow as tf

    model = _functional(keras)
    model.compile("sgd", "mse")
    model.train_on_batch(tf.zeros([4, 3]), [tf.zeros([4, 2])] * 2)
    return model


def _masked(keras: Any) -> Any:
    import tensorflow as tf

    embedding = keras.layers.Embedding(4, 2, mask_zero=True)
    return embedding(tf.constant([[1, 0]]))


def _losses_of_thread(keras: Any) -> Any:
    layer = keras.layers.Dense(2)
    assert layer.losses == []  # asking makes the list
    return layer._thread_local


_OF_KERAS: dict[str, Callable[[Any], Any]] = {
    "<keras>": lambda keras: keras,
    "<functional model>": _functional,
    "<sequential model>": _sequential,
    "<called model>": _called,
    "<compiled model>": _compiled,
    "<compiled loss>": lambda keras: _compiled(keras).compiled_loss,
    "<layer>": lambda keras: keras.layers.Dense(2),
    "<thread's losses>": _losses_of_thread,
    "<masked output>": _masked,
    "<variable>": lambda keras: _functional(keras).weights[0],
    "<built optimizer>": lambda keras: _compiled(keras).optimizer,
    "<legacy optimizer>": lambda keras: keras.optimizers.legacy.SGD(),
    "<callback>": lambda keras: keras.callbacks.Callback(),
    "<hook>": lambda keras: keras.callbacks.Callback.on_train_batch_end,
}


if __name__ == "__main__":
    sys.exit(main())
