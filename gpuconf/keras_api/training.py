"""Where a training comes by, whoever wrote its loop: classes and functions that can be wrapped."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

# Where the classes are, below keras or tf_keras, over the versions.
OPTIMIZERS = (
    "src.optimizers.base_optimizer",
    "src.optimizers.loss_scale_optimizer",
    "src.optimizers.multi_optimizer",
    "src.optimizers.optimizer",
    "src.optimizers.legacy.optimizer_v2",
    "src.mixed_precision.loss_scale_optimizer",
)
TRAINERS = (
    ("src.backend.tensorflow.trainer", "TensorFlowTrainer"),
    ("src.engine.training", "Model"),
)

# The losses again, as ``from tensorflow import keras`` gives them, by version.
LOSS_MODULES = ("keras._tf_keras.keras.losses", "tf_keras.api._v2.keras.losses")


def optimizer_classes(keras: str) -> list[type]:
    """The classes of optimizers of an imported Keras, ``keras`` or ``tf_keras``."""
    found = []
    for name in (f"{keras}.{below}" for below in OPTIMIZERS):
        module = sys.modules.get(name)
        owners = [] if module is None else list(vars(module).values())
        found += [each for each in owners if isinstance(each, type) and each.__module__ == name]
    return found


GRAPH_TRAINERS = (("src.engine.training_v1", "Model"),)  # Keras 2 in graphs of TensorFlow 1


def trainer_classes(keras: str, *, in_graphs: bool = False) -> list[type]:
    """The classes with ``fit`` and ``train_on_batch`` of an imported Keras; in graphs, too."""
    places = (*TRAINERS, *GRAPH_TRAINERS) if in_graphs else TRAINERS
    owners = (getattr(sys.modules.get(f"{keras}.{module}"), name, None) for module, name in places)
    return [owner for owner in owners if owner is not None]


def model_class(keras: str) -> Any:
    """``keras.Model`` of an imported Keras; None where it has none."""
    return getattr(sys.modules.get(keras), "Model", None)


def function_class() -> type:
    """The class of what ``tf.function`` makes."""
    import tensorflow as tf

    return type(tf.function(lambda: None))


def is_jit_function(function: Any) -> bool:
    """Whether a ``tf.function`` was made with ``jit_compile=True``."""
    return getattr(function, "_jit_compile", None) is True


def strategy_class() -> Any:
    """The class behind ``MirroredStrategy().extended``; None where this TensorFlow has none."""
    try:
        from tensorflow.python.distribute.mirrored_strategy import MirroredExtended
    except ImportError:
        return None
    return MirroredExtended


def profiler_modules() -> list[ModuleType]:
    """The modules through which programs start TensorFlow's profiler, of which there is one.

    The first is TensorFlow's own, where there is one; ``keras.callbacks.TensorBoard`` calls it.
    """
    import tensorflow as tf

    public = tf.profiler.experimental
    try:
        from tensorflow.python.profiler import profiler_v2
    except ImportError:
        return [public]
    return [profiler_v2, public]


def dataset_batch_size(data: Any) -> int | None:
    """What the last ``batch()`` of a ``tf.data.Dataset`` was given; None where it is not seen."""
    step = data
    while step is not None:
        if "Unbatch" in type(step).__name__ or "FlatMap" in type(step).__name__:
            return None
        found = getattr(step, "_batch_size", None)
        if found is not None:
            return int(found)
        step = getattr(step, "_input_dataset", None)
    return None


def dataset_rows(data: Any) -> int | None:
    """How many examples all batches of a ``tf.data.Dataset`` have; None where it is not known.

    Nothing is read: the dataset before its ``batch()`` says how many it has, if it can.
    """
    step, batches = data, int(data.cardinality())
    while step is not None and getattr(step, "_batch_size", None) is None:
        step = getattr(step, "_input_dataset", None)
    source = getattr(step, "_input_dataset", None)
    if source is None or batches < 1 or int(step.cardinality()) != batches:
        return None
    examples = int(source.cardinality())
    return None if examples < 1 else min(examples, batches * int(step._batch_size))
