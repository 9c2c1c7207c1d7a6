"""Variables of Keras 2 and 3 and of their optimizers: names, bytes, handles, and creation."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from typing import Any

from gpuconf.support.keras_api.layers import layers_of


def path_of(variable: Any) -> str:
    """The full name: ``dense/kernel``."""
    return str(getattr(variable, "path", None) or variable.name).split(":", maxsplit=1)[0]


def bytes_of(variable: Any) -> int:
    """Bytes of the values; 0 if the shape is not fully known."""
    if isinstance(variable.dtype, str):  # Keras 3's, on any backend
        bits = re.search(r"\d+", variable.dtype)
        size = int(bits[0]) // 8 if bits else 1  # bool
        return 0 if None in variable.shape else math.prod(variable.shape) * size
    import tensorflow as tf

    count = tf.TensorShape(variable.shape).num_elements() or 0
    return int(count * tf.as_dtype(variable.dtype).size)


def size_bytes(variables: Iterable[Any]) -> int:
    """Bytes of the values of all variables."""
    return sum(map(bytes_of, variables))


def handle_of(variable: Any) -> Any:
    """TensorFlow's handle for a Keras 2 or 3 variable."""
    inner = getattr(variable, "_value", None)  # in Keras 3 it holds TensorFlow's
    if inner is None or not hasattr(inner, "handle"):
        inner = variable
    return getattr(inner, "handle", inner)


def component(variable: Any) -> Any:
    """The variable itself; for a strategy with one device, the only component."""
    distribute = getattr(sys.modules.get("tensorflow"), "distribute", None)
    if distribute is not None and isinstance(variable, distribute.DistributedValues):
        return variable.values[0]
    return variable


def optimizer_variables(optimizer: Any) -> list[Any]:
    """All variables of an optimizer; in Keras 2's legacy optimizers this is a method."""
    variables = [] if optimizer is None else optimizer.variables
    is_list = isinstance(variables, (list, tuple))  # Keras's own list types are callable, too
    return list(variables() if callable(variables) and not is_list else variables)


def name_of(optimizer: Any) -> str:
    """The name of a Keras or TensorFlow 1 optimizer."""
    get_name = getattr(optimizer, "get_name", None)
    return str(get_name() if get_name else getattr(optimizer, "name", optimizer))


def is_built(optimizer: Any) -> bool:
    """Whether an optimizer has created its variables."""
    return bool(getattr(optimizer, "built", getattr(optimizer, "_built", False)))


def initialized_by(value: Any) -> Any | None:
    """The Keras 3 variable whose initial value this function computes; None for other functions.

    Keras passes TensorFlow a function that calls the variable's initializer; the shape is known
    without calling it.
    """
    names = getattr(getattr(value, "__code__", None), "co_freevars", ())
    if "self" not in names or "initializer" not in names:
        return None
    owner = value.__closure__[names.index("self")].cell_contents
    keras = sys.modules.get("keras")
    return owner if keras is not None and isinstance(owner, keras.Variable) else None


def build_optimizer(model: Any) -> None:
    """Create the variables of the model's optimizer now; Keras does so only in the first update."""
    optimizer, variables = model.optimizer, model.trainable_variables
    if optimizer is None or not variables or is_built(optimizer):
        return
    if hasattr(optimizer, "build"):
        optimizer.build(variables)
    elif hasattr(optimizer, "_create_all_weights"):  # Keras 2's legacy optimizers
        optimizer._create_all_weights(variables)


def changed_by_calls(model: Any) -> list[Any]:
    """The variables that calling a Keras 3 model may change: metrics, seeds, statistics.

    Weights of frozen layers are excluded, though Keras lists them as non-trainable.
    """
    weights = {id(each) for each in model.weights}
    found = [each for each in model.variables if id(each) not in weights]  # metrics and seeds
    found += model.metrics_variables
    for layer in layers_of(model, include_self=True):
        found += getattr(layer, "_non_trainable_variables", ())
    return list({id(each): each for each in found}.values())
