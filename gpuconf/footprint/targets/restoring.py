"""From what a file says of a model to the model, without its weights."""

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

from gpuconf.errors import GpuconfError, MissingDependencyError, UsageError
from gpuconf.footprint.targets.saved_models import FROM_CODE, SavedModel
from gpuconf.footprint.tensorflow.abstract_variables import abstract_variables

# How the Kerases say that a class or function is not theirs.
_UNKNOWN = re.compile(
    r"(?:Could not locate (?:class|function)|Unknown (?:layer|loss function|metric function|"
    r"optimizer|activation function|object)|Cannot deserialize object of type|"
    r"Could not interpret (?:loss|optimizer|activation function) identifier):? [`'\"]?([\w>.]+)"
)
_LONGEST_REASON = 300


class RestoredModel(NamedTuple):
    """A model, and what to know of how it was come by."""

    model: Any
    notes: tuple[str, ...] = ()


def restore(saved: SavedModel, path: Path) -> RestoredModel:
    """The model of ``path``, compiled where the file says how; its variables have no memory.

    Raises UsageError where Keras cannot make it, as with classes that it does not know.
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
            reason = f"how it was compiled is left out: {_reason(failure)}"
            return RestoredModel(model, (f"{reason} (--optimizer, --loss)",))
    raise _refusal(failure, saved, keras, path)


def _keras_for(saved: SavedModel, path: Path) -> ModuleType:
    """The Keras that wrote the file, as far as it is installed."""
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
    """So that an object that is stored twice is one again; Keras does not show it."""
    with contextlib.suppress(ImportError, AttributeError):
        library = importlib.import_module(f"{keras.__name__}.src.saving.serialization_lib")
        scope: AbstractContextManager[Any] = library.ObjectSharingScope()
        return scope
    return contextlib.nullcontext()


def _made(keras: ModuleType, saved: SavedModel) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras thinks of its own older files
        return _deserialized(keras, saved)


def _deserialized(keras: ModuleType, saved: SavedModel) -> Any:
    saved = copy.deepcopy(saved)  # Keras takes it apart, and there may be a second try
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
    """``get`` of every object that lists and dicts hold; text is kept once it is known."""
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
            f"{path} holds {unknown[1].rpartition('>')[2]!r}, which is not part of Keras",
            hint=f"name the function that makes the model, with its classes: {FROM_CODE}",
        )
    versions = f"written by Keras {saved.keras_version}, read by {_version(keras)}"
    is_foreign = (saved.keras_version or "").startswith("2.") and _version(keras)[:1] == "3"
    return UsageError(
        f"{path} cannot be made into a model: {_reason(error)} ({versions})",
        hint="pip install tf_keras" if is_foreign else f"name what makes the model: {FROM_CODE}",
    )


def _reason(error: Exception) -> str:
    """Keras's last word, without the configuration that it prints along with it."""
    unknown = _UNKNOWN.search(str(error))
    if unknown is not None:
        return f"{unknown[1].rpartition('>')[2]!r} is not part of Keras"
    text = str(error).rpartition("Exception encountered: ")[2].strip() or type(error).__name__
    line = text.splitlines()[0]
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} …"
