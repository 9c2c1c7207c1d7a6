"""Read a saved Keras model's configuration, without its weights."""

from __future__ import annotations

import contextlib
import importlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.errors import UsageError

FROM_CODE = "gpuconf estimate my_module:make_model"
_CONFIG, _METADATA = "config.json", "metadata.json"
_LARGEST_CONFIG_BYTES = 1 << 28
_HDF5 = b"\x89HDF\r\n\x1a\n"
_BROKEN = (OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zipfile.BadZipFile)


class SavedModel(NamedTuple):
    """The description of a model in a file.

    Keras builds the model from ``config``.  ``training`` holds the arguments of ``compile`` for
    legacy files, whose config lacks them.  ``keras_version`` is None if the file does not say.
    """

    config: dict[str, Any]
    keras_version: str | None
    is_legacy: bool = False
    training: dict[str, Any] | None = None


def read_saved_model(path: Path) -> SavedModel:
    """Read a ``.keras`` archive or folder or an HDF5 file, without the weights.

    Raises UsageError for everything else, and for a model that contains Python code.
    """
    try:
        saved = _of_hdf5(path) if _is_hdf5(path) else _of_keras(path)
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path} is not a saved Keras model (.keras, .h5): {reason}",
            hint=f"save it again, or name the function that builds the model: {FROM_CODE}",
        ) from None
    _refuse_stored_code(path, saved.config)
    return saved


def _is_hdf5(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(_HDF5)) == _HDF5


def _of_keras(path: Path) -> SavedModel:
    """Read a Keras 3 archive, or a folder into which one was unpacked."""
    if path.is_dir():
        files = [path / name for name in (_CONFIG, _METADATA)]
        members = {file.name: file.read_bytes() for file in files if file.is_file()}
    else:
        with zipfile.ZipFile(path) as archive:
            found = [each for each in archive.infolist() if each.filename in (_CONFIG, _METADATA)]
            if any(each.file_size > _LARGEST_CONFIG_BYTES for each in found):
                raise ValueError("its configuration is absurdly large")
            members = {each.filename: archive.read(each) for each in found}
    if _CONFIG not in members:
        raise ValueError(f"it contains no {_CONFIG}, so it probably holds only weights or a graph")
    about = json.loads(members.get(_METADATA, "{}"))
    version = about.get("keras_version") if isinstance(about, dict) else None
    return SavedModel(_config(members[_CONFIG]), version)


def _of_hdf5(path: Path) -> SavedModel:
    h5py = importlib.import_module("h5py")  # comes with Keras
    names = ("model_config", "training_config", "keras_version")
    with h5py.File(path, "r") as file:
        config, training, version = (_text(file.attrs.get(name)) for name in names)
    if config is None:
        raise ValueError("it contains only weights")
    saved = SavedModel(_config(config), version, is_legacy=True)
    with contextlib.suppress(ValueError):
        saved = saved._replace(training=json.loads(training or "null"))
    return saved


def _config(text: str | bytes) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or "class_name" not in found:
        raise ValueError("its configuration names no class")
    return found


def _text(value: Any) -> str | None:
    """An attribute of an HDF5 file as text."""
    if value is None or isinstance(value, str):
        return value
    return str(value.decode("utf-8", "replace")) if isinstance(value, bytes) else None


def _refuse_stored_code(path: Path, config: dict[str, Any]) -> None:
    """Raise for a Lambda layer that is stored as Python bytecode, which may do anything."""
    for layer in _with_stored_code(config):
        where = "a layer" if layer is None else f"layer {layer!r}"
        raise UsageError(
            f"{path}: the Python code stored in {where} is not run",
            hint=f"name the function that builds the model: {FROM_CODE}",
        )


def _with_stored_code(config: dict[str, Any]) -> Iterator[str | None]:
    """The names of the layers that contain code, in the formats of Keras 2 and 3."""
    open_ones: list[tuple[Any, str | None]] = [(config, None)]
    while open_ones:  # no recursion: the file decides the depth
        value, layer = open_ones.pop()
        if isinstance(value, dict):
            kind, inner = value.get("class_name"), value.get("config")
            if isinstance(inner, dict):
                layer = inner.get("name", layer)
            is_function = isinstance(inner, dict) and isinstance(inner.get("function"), list)
            if kind == "__lambda__" or (kind == "Lambda" and is_function):
                yield layer
            value = list(value.values())
        if isinstance(value, list):
            open_ones += [(each, layer) for each in value]
