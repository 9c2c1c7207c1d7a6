"""Rebuild a saved model from its configuration, without its weights."""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from gpuconf.commands.estimate.targets.saved_models import FROM_CODE, SavedModel
from gpuconf.commands.estimate.tensorflow.abstract_variables import abstract_variables
from gpuconf.errors import UsageError

_LONGEST_REASON = 300


class RestoredModel(NamedTuple):
    """A model and notes on how it was obtained."""

    model: Any
    notes: tuple[str, ...] = ()


def restore(saved: SavedModel, path: Path) -> RestoredModel:
    """Rebuild the model in ``path``, compiled if the file says how; its variables use no memory.

    Raises UsageError if Keras cannot build the model, for example because of unknown classes.
    """
    keras = _keras_for(saved.keras_version or "")
    plain = {name: value for name, value in saved.config.items() if name != "compile_config"}
    try:
        return RestoredModel(_made(keras, saved))
    except Exception as error:  # whatever Keras and its layers raise
        reason = _reason(error)
    with contextlib.suppress(Exception):
        model = _made(keras, saved._replace(config=plain, training=None))
        note = f"its compile settings are left out (--optimizer, --loss): {reason}"
        return RestoredModel(model, (note,))
    versions = f"written by Keras {saved.keras_version}, read by {keras.__version__}"
    raise UsageError(
        f"{path} cannot be loaded as a model: {reason} ({versions})",
        hint=f"name the function that builds the model, with its classes: {FROM_CODE}",
    )


def _keras_for(version: str) -> Any:
    """The Keras version that wrote the file, or the one that is installed."""
    is_keras_2 = version.startswith("2.") and importlib.util.find_spec("tf_keras") is not None
    return importlib.import_module("tf_keras" if is_keras_2 else "keras")


def _shared_objects(keras: ModuleType) -> AbstractContextManager[Any]:
    """Restore an object that is stored twice as one object; this uses a private Keras API."""
    with contextlib.suppress(ImportError, AttributeError):
        library = importlib.import_module(f"{keras.__name__}.src.saving.serialization_lib")
        scope: AbstractContextManager[Any] = library.ObjectSharingScope()
        return scope
    return contextlib.nullcontext()


def _made(keras: ModuleType, saved: SavedModel) -> Any:
    saved = copy.deepcopy(saved)  # Keras modifies it, and there may be a second try
    with warnings.catch_warnings(), abstract_variables(), _shared_objects(keras):
        warnings.simplefilter("ignore")  # Keras warns about its own older files
        return _deserialized(keras, saved)


def _deserialized(keras: ModuleType, saved: SavedModel) -> Any:
    if not saved.is_legacy:
        return keras.saving.deserialize_keras_object(saved.config, safe_mode=True)
    known = {"Sequential": keras.Sequential, "Functional": keras.Model, "Model": keras.Model}
    name = saved.config["class_name"]
    if name not in known:
        raise TypeError(f"Could not locate class '{name}'")
    model = known[name].from_config(saved.config["config"])
    if saved.training is not None:
        model.compile(**_compiling(keras, saved.training))
    return model


def _compiling(keras: ModuleType, training: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``compile``; ValueError for a loss that Keras does not know."""
    optimizer = keras.optimizers.deserialize(training["optimizer_config"])
    loss = _each(training.get("loss"), keras.losses.get)
    metrics = _each(training.get("metrics"), keras.metrics.get)
    return {"optimizer": optimizer, "loss": loss, "metrics": metrics}


def _each(value: Any, get: Any) -> Any:
    """Apply ``get`` to every object in lists and dicts; keep strings, but check that they exist."""
    if isinstance(value, list):
        return [_each(one, get) for one in value]
    if isinstance(value, dict) and "class_name" not in value:
        return {name: _each(one, get) for name, one in value.items()}
    if value is None or value in ("accuracy", "acc", "crossentropy", "ce"):
        return value  # which metric it is depends on the loss
    made = get(value)
    return value if isinstance(value, str) else made


def _reason(error: Exception) -> str:
    """The last part of Keras's message, without the configuration that Keras prints with it."""
    text = str(error).rpartition("Exception encountered: ")[2].strip() or type(error).__name__
    line = text.splitlines()[0]
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} …"
