"""Read a saved Keras model's configuration, without its weights; refuse other files."""

from __future__ import annotations

import contextlib
import importlib
import json
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.errors import UsageError

FROM_CODE = "gpuconf estimate my_module:make_model"
_LARGEST_CONFIG_BYTES = 1 << 28
_ZIP, _HDF5, _TFLITE = b"PK", b"\x89HDF\r\n\x1a\n", b"TFL3"
_NO_MODELS = {
    ".tflite": "a TFLite model",
    ".onnx": "an ONNX model",
    ".pb": "a TensorFlow graph",
    ".pt": "a PyTorch file",
    ".pth": "a PyTorch file",
    ".safetensors": "a weights-only file",
    ".npz": "a file of NumPy arrays",
    ".ckpt": "a weights-only checkpoint",
    ".index": "a weights-only checkpoint",
    ".ipynb": "a notebook",
}


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

    Raises UsageError for everything else; its hint says what to pass instead.
    """
    try:
        if path.is_dir():
            saved = _of_folder(path)
        else:
            with path.open("rb") as file:
                saved = _of_file(path, file.read(16))
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", hint=f"ls {_quoted(path.parent)}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"{path} cannot be read: {reason}", hint=f"ls -ld {_quoted(path)}"
        ) from None
    _refuse_stored_code(path, saved.config)
    return saved


def _of_file(path: Path, start: bytes) -> SavedModel:
    if not start:
        raise UsageError(f"{path} is empty: 0 bytes", hint=f"save it again, or: {FROM_CODE}")
    if start.startswith(_ZIP):
        return _of_archive(path)
    if start.startswith(_HDF5):
        return _of_hdf5(path)
    raise _refusal(path, _NO_MODELS[".tflite"] if start[4:8] == _TFLITE else None)


def _of_folder(path: Path) -> SavedModel:
    """Read an unpacked ``.keras`` archive; Keras 3 accepts these too."""
    if (path / "config.json").is_file():
        metadata = path / "metadata.json"
        metadata_text = metadata.read_bytes() if metadata.is_file() else b"{}"
        return _of_json(path, (path / "config.json").read_bytes(), metadata_text)
    names = {each.name for each in path.iterdir()}
    if "saved_model.pb" in names:
        raise _refusal(path, "a SavedModel, which contains a graph")
    if any(name.endswith(".index") or name == "checkpoint" for name in names):
        raise _refusal(path, "a folder of weights-only checkpoints")
    raise _refusal(path, "a folder")


def _of_archive(path: Path) -> SavedModel:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "config.json" not in names:
                is_torch = any(name.endswith("data.pkl") for name in names)
                raise _refusal(path, _NO_MODELS[".pt"] if is_torch else "a zip archive")
            if archive.getinfo("config.json").file_size > _LARGEST_CONFIG_BYTES:
                raise _refusal(path, "a zip archive with an absurdly large config.json")
            config = archive.read("config.json")
            metadata = archive.read("metadata.json") if "metadata.json" in names else b"{}"
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"{path} is a broken or incomplete archive: {error}",
            hint=f"python -m zipfile --test {_quoted(path)}",
        ) from None
    return _of_json(path, config, metadata)


def _of_json(path: Path, config: bytes, metadata: bytes) -> SavedModel:
    try:
        found, about = json.loads(config), json.loads(metadata)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is broken: its config is not JSON ({error})",
            hint=f"save it again, or: {FROM_CODE}",
        ) from None
    if not isinstance(found, dict) or "class_name" not in found:
        raise _refusal(path, "a file whose config names no class")
    version = about.get("keras_version") if isinstance(about, dict) else None
    return SavedModel(found, version)


def _of_hdf5(path: Path) -> SavedModel:
    h5py = importlib.import_module("h5py")  # comes with Keras
    try:
        with h5py.File(path, "r") as file:
            config, training, version = (
                _text(file.attrs.get(name))
                for name in ("model_config", "training_config", "keras_version")
            )
    except OSError as error:
        raise UsageError(
            f"{path} is a broken or incomplete HDF5 file: {error}",
            hint=f"copy or save it again, or: {FROM_CODE}",
        ) from None
    if config is None:
        raise _refusal(path, "a weights-only file")
    saved = _of_json(path, config.encode(), b"{}")
    with contextlib.suppress(ValueError):
        saved = saved._replace(training=json.loads(training or "null"))
    return saved._replace(keras_version=version, is_legacy=True)


def _text(value: Any) -> str | None:
    """An attribute of an HDF5 file as text."""
    if value is None or isinstance(value, str):
        return value
    return str(value.decode("utf-8", "replace")) if isinstance(value, bytes) else None


def _refusal(path: Path, what: str | None) -> UsageError:
    """The error for a file or folder that holds no Keras model."""
    what = what or _NO_MODELS.get(path.suffix.lower(), "in an unknown format")
    return UsageError(
        f"{path} is {what}, not a saved Keras model (.keras, .h5)",
        hint=f"name the function that builds the model: {FROM_CODE}",
    )


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


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
