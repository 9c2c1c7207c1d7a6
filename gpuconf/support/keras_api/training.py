"""Classes and functions that all training goes through, so that they can be wrapped."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from gpuconf.support.keras_api.patching import Wrapper, wrap

# The modules of the classes, below keras or tf_keras, in different versions.
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

# The loss modules that ``from tensorflow import keras`` exposes, by version.
LOSS_MODULES = ("keras._tf_keras.keras.losses", "tf_keras.api._v2.keras.losses")


def wrap_updates(keras: str, around: Wrapper) -> None:
    """Wrap the update of each optimizer of an imported Keras, ``keras`` or ``tf_keras``."""
    for owner in optimizer_classes(keras):
        # In Keras 3, apply_gradients only calls apply.
        wrap(owner, "apply" if "apply" in vars(owner) else "apply_gradients", around)


def optimizer_classes(keras: str) -> list[type]:
    """The optimizer classes of an imported Keras."""
    found = []
    for name in (f"{keras}.{below}" for below in OPTIMIZERS):
        module = sys.modules.get(name)
        owners = [] if module is None else list(vars(module).values())
        found += [each for each in owners if isinstance(each, type) and each.__module__ == name]
    return found


def variables_updated(arguments: Iterable[Any]) -> list[Any]:
    """The variables passed to an optimizer's update, paired with gradients or in a list."""
    found = []
    for each in arguments:
        for item in each if isinstance(each, list | tuple) else ():
            variable = item[1] if isinstance(item, tuple) and len(item) == 2 else item
            if hasattr(variable, "assign"):
                found.append(variable)
    return found


def is_eager() -> bool:
    """Whether code is executed rather than traced."""
    import tensorflow as tf

    return bool(tf.executing_eagerly())


GRAPH_TRAINERS = (("src.engine.training_v1", "Model"),)  # Keras 2 in TensorFlow 1 graphs


def trainer_classes(keras: str, *, in_graphs: bool = False) -> list[type]:
    """Classes of an imported Keras with ``fit`` and ``train_on_batch``, including those for
    graphs."""
    places = (*TRAINERS, *GRAPH_TRAINERS) if in_graphs else TRAINERS
    owners = (getattr(sys.modules.get(f"{keras}.{module}"), name, None) for module, name in places)
    return [owner for owner in owners if owner is not None]


def backend_of(keras: ModuleType) -> str:
    """The backend of an imported Keras; Keras 2 has only TensorFlow."""
    name = getattr(getattr(keras, "config", None), "backend", lambda: "tensorflow")()
    return str(name)


def model_class(keras: str) -> Any:
    """``keras.Model`` of an imported Keras; None if it has none."""
    return getattr(sys.modules.get(keras), "Model", None)


def function_class() -> type:
    """The class of the objects that ``tf.function`` returns."""
    import tensorflow as tf

    return type(tf.function(lambda: None))


def is_jit_function(function: Any) -> bool:
    """Whether a ``tf.function`` was made with ``jit_compile=True``."""
    return getattr(function, "_jit_compile", None) is True


def strategy_class() -> Any:
    """The class behind ``MirroredStrategy().extended``; None if this TensorFlow has none."""
    try:
        from tensorflow.python.distribute.mirrored_strategy import MirroredExtended
    except ImportError:
        return None
    return MirroredExtended


def profiler_modules() -> list[ModuleType]:
    """The modules through which programs start TensorFlow's profiler, which exists only once.

    The first is TensorFlow's internal one, if present; ``keras.callbacks.TensorBoard`` calls it.
    """
    import tensorflow as tf

    public = tf.profiler.experimental
    try:
        from tensorflow.python.profiler import profiler_v2
    except ImportError:
        return [public]
    return [profiler_v2, public]


def dataset_batch_size(data: Any) -> int | None:
    """The argument of a ``tf.data.Dataset``'s last ``batch()``; None if it cannot be found."""
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
    """The number of examples in all batches of a ``tf.data.Dataset``; None if unknown.

    Nothing is read: the dataset before its ``batch()`` reports its cardinality, if it can.
    """
    step, batches = data, int(data.cardinality())
    while step is not None and getattr(step, "_batch_size", None) is None:
        step = getattr(step, "_input_dataset", None)
    source = getattr(step, "_input_dataset", None)
    if source is None or batches < 1 or int(step.cardinality()) != batches:
        return None
    examples = int(source.cardinality())
    return None if examples < 1 else min(examples, batches * int(step._batch_size))
