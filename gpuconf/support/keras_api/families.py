"""Which Keras a model belongs to, and whether it is a model at all."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from gpuconf.errors import BackendError, UsageError


class KerasFamily(NamedTuple):
    """A Keras implementation: Keras 3, or Keras 2 as ``tf_keras`` or TensorFlow's own before
    2.16."""

    keras: Any
    name: str
    is_keras_3: bool
    backend: str = "tensorflow"


def family_of(model: Any) -> KerasFamily:
    """The Keras module behind a model that runs on TensorFlow.

    Raises UsageError for anything but a model, and BackendError for backends other than TensorFlow.
    """
    family = family_on_any_backend(model)
    _check_backend(family)
    return family


def family_on_any_backend(model: Any) -> KerasFamily:
    """The Keras module behind a model on TensorFlow, JAX or PyTorch.

    Raises UsageError for anything but a model.
    """
    for name in ("keras", "tf_keras"):
        keras = sys.modules.get(name)
        if keras is None or not hasattr(keras, "Model"):
            continue
        if isinstance(model, keras.Model):
            if not keras.__version__.startswith("3"):
                return KerasFamily(keras, name, is_keras_3=False)
            return KerasFamily(keras, name, True, keras.backend.backend())
        if isinstance(model, keras.layers.Layer):
            raise UsageError(
                f"{_type_name(model)} is a layer, not a model",
                hint=f"pass a model: {name}.Sequential([{name}.Input(...), layer])",
            )
    raise UsageError(f"{_type_name(model)} is not a Keras model", hint=_hint_for(model))


def loaded_family() -> KerasFamily:
    """The Keras that is imported, or else TensorFlow's own."""
    for name in ("keras", "tf_keras"):
        keras = sys.modules.get(name)
        if hasattr(keras, "Model"):
            return KerasFamily(keras, name, str(getattr(keras, "__version__", "")).startswith("3"))
    import tensorflow as tf

    return KerasFamily(tf.keras, "keras", str(tf.keras.__version__).startswith("3"))


def has_own_step(model: Any, name: str) -> bool:
    """Whether the model overrides this step (``train_step``, ``test_step``)."""
    base = family_on_any_backend(model).keras.Model
    return name in vars(model) or getattr(type(model), name) is not getattr(base, name)


def _check_backend(family: KerasFamily) -> None:
    if family.backend != "tensorflow":
        raise BackendError(
            f"Keras uses the {family.backend} backend here, but only TensorFlow's memory can be "
            "estimated",
            hint="export KERAS_BACKEND=tensorflow",
        )


def _type_name(value: Any) -> str:
    kind = type(value)
    return (
        f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else repr(value)
    )


def _hint_for(value: Any) -> str:
    if isinstance(value, type):
        return "pass a model, not its class: MyModel()"
    if callable(value) and not hasattr(value, "parameters"):
        return "pass the model that the function returns: make_model()"
    if type(value).__module__.startswith("torch") or hasattr(value, "named_parameters"):
        return "PyTorch models cannot be estimated yet; pass a keras.Model"
    return "pass a keras.Model, or on the command line: gpuconf estimate my_module:make_model"
