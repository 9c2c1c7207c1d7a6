"""Rebuild a saved model from its configuration, without its weights."""

from __future__ import annotations

import contextlib
import copy
import importlib
import re
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from gpuconf.commands.estimate.targets.saved_models import FROM_CODE, SavedModel
from gpuconf.commands.estimate.tensorflow.abstract_variables import abstract_variables
from gpuconf.errors import GpuconfError, MissingDependencyError, UsageError

# How Keras 2 and Keras 3 report an unknown class or function.
_UNKNOWN = re.compile(
    r"(?:Could not locate (?:class|function)|Unknown (?:layer|loss function|metric function|"
    r"optimizer|activation function|object)|Cannot deserialize object of type|"
    r"Could not interpret (?:loss|optimizer|activation function) identifier):? [`'\"]?([\w>.]+)"
)
_LONGEST_REASON = 300


class RestoredModel(NamedTuple):
    """A model and notes on how it was obtained."""

    model: Any
    notes: tuple[str, ...] = ()


def restore(saved: SavedModel, path: Path) -> RestoredModel:
    """Rebuild the model in ``path``, compiled if the file says how; its variables have no memory.

    Raises UsageError if Keras cannot build it, for example because of unknown classes.
    """
    keras = _keras_for(saved, path)
    compiled, plain = _with_and_without_compiling(saved)
    with abstract_variables(), _shared_objects(keras):
        try:
            return RestoredModel(_made(keras, compiled))
        except Exception as error:  # whatever Keras and its layers raise
            failure = error
    if compiled != plain:
        with abstract_variables(), _shared_objects(keras), contextlib.suppress(Exception):
            model = _made(keras, plain)
            reason = f"its compile settings are left out: {_reason(failure)}"
            return RestoredModel(model, (f"{reason} (--optimizer, --loss)",))
    raise _refusal(failure, saved, keras, path)


def _keras_for(saved: SavedModel, path: Path) -> ModuleType:
    """The Keras that wrote the file, if it is installed."""
    is_keras_2 = (saved.keras_version or "").startswith("2.")
    names = ("tf_keras", "keras") if is_keras_2 else ("keras",)
    for name in names:
        try:
            keras = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        if is_keras_2 or _version(keras).startswith("3") or saved.keras_version is None:
            return keras
    wanted = "tf_keras" if is_keras_2 else '"keras>=3"'
    raise MissingDependencyError(
        f"{path} was written by Keras {saved.keras_version or 3}, which is not installed",
        hint=f"pip install {wanted}",
    )


def _version(keras: ModuleType) -> str:
    return str(getattr(keras, "__version__", ""))


def _with_and_without_compiling(saved: SavedModel) -> tuple[SavedModel, SavedModel]:
    plain = {name: value for name, value in saved.config.items() if name != "compile_config"}
    return saved, saved._replace(config=plain, training=None)


def _shared_objects(keras: ModuleType) -> AbstractContextManager[Any]:
    """Restore an object that is stored twice as one object; this is a private API of Keras."""
    with contextlib.suppress(ImportError, AttributeError):
        library = importlib.import_module(f"{keras.__name__}.src.saving.serialization_lib")
        scope: AbstractContextManager[Any] = library.ObjectSharingScope()
        return scope
    return contextlib.nullcontext()


def _made(keras: ModuleType, saved: SavedModel) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns about its own older files
        return _deserialized(keras, saved)


def _deserialized(keras: ModuleType, saved: SavedModel) -> Any:
    saved = copy.deepcopy(saved)  # Keras modifies it, and there may be a second try
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


def _refusal(error: Exception, saved: SavedModel, keras: ModuleType, path: Path) -> GpuconfError:
    unknown = _UNKNOWN.search(str(error))
    if unknown is not None:
        return UsageError(
            f"{path} contains {unknown[1].rpartition('>')[2]!r}, which is not part of Keras",
            hint=f"name the function that builds the model, with its classes: {FROM_CODE}",
        )
    versions = f"written by Keras {saved.keras_version}, read by {_version(keras)}"
    is_foreign = (saved.keras_version or "").startswith("2.") and _version(keras)[:1] == "3"
    return UsageError(
        f"{path} cannot be loaded as a model: {_reason(error)} ({versions})",
        hint="pip install tf_keras" if is_foreign else f"build it from code: {FROM_CODE}",
    )


def _reason(error: Exception) -> str:
    """The last part of Keras's message, without the configuration that Keras prints with it."""
    unknown = _UNKNOWN.search(str(error))
    if unknown is not None:
        return f"{unknown[1].rpartition('>')[2]!r} is not part of Keras"
    text = str(error).rpartition("Exception encountered: ")[2].strip() or type(error).__name__
    line = text.splitlines()[0]
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} …"
