"""Redirect paths that TensorFlow and other libraries open in C++, bypassing Python's ``open``.

A few functions cover everything: TensorFlow's file_io, checkpoint savers, and summary and record
writers, and also ``h5py.File``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol

from gpuconf.support.keras_api.patching import wrap


class Paths(Protocol):
    """The paths to use for reading, writing and removing; each method takes str or bytes."""

    def for_reading(self, path: Any) -> Any: ...
    def for_writing(self, path: Any, *, keep: bool = False) -> Any: ...
    def for_a_folder(self, path: Any) -> Any: ...
    def folder_for_writing(self, path: Any) -> Any: ...
    def make_folders(self, path: Any) -> None: ...
    def remove(self, path: Any, original: Callable[..., Any]) -> Any: ...
    def move(self, source: Any, target: Any) -> None: ...
    def listed(self, path: Any, names: Callable[[Any], Any]) -> dict[str, Any]: ...
    def matching(self, pattern: Any, names: Callable[[Any], Any]) -> list[Any]: ...


class Diverting(Protocol):
    """Says whether paths are redirected now, and ends the program if a path cannot be
    redirected."""

    @property
    def is_diverting(self) -> bool: ...
    @property
    def shadow(self) -> Paths: ...
    def busy(self) -> AbstractContextManager[None]: ...
    def refuse(self, path: str) -> None: ...


class _Place(NamedTuple):
    """A function with a path argument: its owner, which argument, and how the path is used."""

    owner: str
    function: str
    place: int
    name: str
    how: str


_READ, _WRITE, _FOLDER, _BY_MODE = "read", "write", "write below", "as the mode says"
_FILE_IO = "tensorflow.python.lib.io._pywrap_file_io"
_SAVER = "tensorflow.python.checkpoint.functional_saver:MultiDeviceSaver"
_SAVER_1 = "tensorflow.python.training.saver:Saver"
_EVENTS = "tensorflow.python.summary.writer.event_file_writer:EventFileWriter"
_READER = "tensorflow.python.training.py_checkpoint_reader"
_DATASET = "tensorflow.python.data.ops.dataset_ops:DatasetV2"
_PLACES = (
    _Place("tensorflow.python.saved_model.save", "save_and_return_nodes", 1, "export_dir", _FOLDER),
    _Place("tensorflow.python.saved_model.load", "load_partial", 0, "export_dir", _READ),
    *(
        _Place(_FILE_IO, name, 0, "filename", _READ)
        for name in ("FileExists", "IsDirectory", "Stat", "BufferedInputStream")
    ),
    _Place(_FILE_IO, "WritableFile", 0, "filename", _WRITE),
    _Place(_SAVER, "save", 1, "file_prefix", _WRITE),
    _Place(_SAVER, "restore", 1, "file_prefix", _READ),
    _Place(_SAVER_1, "save", 2, "save_path", _WRITE),
    _Place(_SAVER_1, "restore", 2, "save_path", _READ),
    _Place(_READER, "NewCheckpointReader", 0, "filepattern", _READ),
    _Place(
        *("tensorflow.python.ops.gen_summary_ops", "create_summary_file_writer", 1, "logdir"),
        _FOLDER,
    ),
    _Place("tensorflow.python.ops.gen_io_ops", "write_file", 0, "filename", _WRITE),
    _Place("tensorflow.python.lib.io.tf_record:TFRecordWriter", "__init__", 1, "path", _WRITE),
    _Place(_EVENTS, "__init__", 1, "logdir", _FOLDER),
    _Place(_DATASET, "save", 1, "path", _FOLDER),
    _Place("h5py:File", "__init__", 1, "name", _BY_MODE),
    _Place("cv2", "imwrite", 0, "filename", _WRITE),
)


def divert(files: Diverting) -> None:
    """Redirect paths in all imported functions in the list; later calls add newly imported ones."""
    for entry in _PLACES:
        module, _, kind = entry.owner.partition(":")
        found: Any = sys.modules.get(module)
        wrap(
            getattr(found, kind, None) if kind else found,
            entry.function,
            partial(_called, files, entry),
        )
    _wrap_copies()
    for name, around in _OF_FOLDERS.items():
        wrap(sys.modules.get(_FILE_IO), name, partial(_done, files, around))


def _wrap_copies() -> None:
    """Also wrap ``write_file`` in modules that imported it by name, such as ``tf.io``."""
    wrapped = getattr(sys.modules.get("tensorflow.python.ops.gen_io_ops"), "write_file", None)
    original = getattr(wrapped, "__wrapped__", None)
    modules = [each for key, each in list(sys.modules.items()) if key.startswith("tensorflow")]
    for module in modules:
        if original is not None and vars(module).get("write_file") is original:
            module.write_file = wrapped  # type: ignore[attr-defined]


def _called(files: Diverting, entry: _Place, original: Any, *args: Any, **named: Any) -> Any:
    """Call the function with the redirected path."""
    if not files.is_diverting:
        return original(*args, **named)
    given = named.get(entry.name, args[entry.place] if len(args) > entry.place else None)
    path = _text_of(given)
    if path is None:
        return original(*args, **named)
    with files.busy():
        changed = _changed(files, entry, path, args, named)
    if type(given).__module__.startswith("tensorflow"):
        import tensorflow as tf

        with tf.device("CPU"):
            changed = tf.constant(changed)
    if entry.name in named:
        named[entry.name] = changed
    else:
        args = (*args[: entry.place], changed, *args[entry.place + 1 :])
    return original(*args, **named)


def _changed(
    files: Diverting, entry: _Place, path: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    after = args[entry.place + 1] if len(args) > entry.place + 1 else ""
    mode = str(named.get("mode", after))
    if entry.how == _READ or (entry.how == _BY_MODE and mode in ("", "r", "None")):
        index = path + (b".index" if isinstance(path, bytes) else ".index")
        found = files.shadow.for_reading(index)
        # A checkpoint's name is the prefix of its files.
        return found[: -len(".index")] if found != index else files.shadow.for_reading(path)
    if _is_remote(path):
        files.refuse(os.fsdecode(path))
    if entry.how == _FOLDER:
        return files.shadow.folder_for_writing(path)
    files.shadow.make_folders(os.path.dirname(path))  # some of these functions create folders
    return files.shadow.for_writing(path, keep="a" in mode or "+" in mode)


def _done(files: Diverting, around: Callable[..., Any], original: Any, *args: Any) -> Any:
    """Run a function that changes or lists folders in the shadow."""
    if not files.is_diverting:
        return original(*args)
    if around not in (_children, _matching) and any(map(_is_remote, args)):
        files.refuse(os.fsdecode(next(filter(_is_remote, args))))
    with files.busy():
        return around(files.shadow, original, *args)


def _children(paths: Paths, original: Any, path: Any) -> Any:
    return list(paths.listed(path, original).values())


def _matching(paths: Paths, original: Any, pattern: Any) -> Any:
    return paths.matching(pattern, original)


def _copied(paths: Paths, original: Any, source: Any, target: Any, *rest: Any) -> Any:
    return original(paths.for_reading(source), paths.for_writing(target), *rest)


_OF_FOLDERS: dict[str, Callable[..., Any]] = {
    "CreateDir": lambda paths, original, path: original(paths.for_a_folder(path)),
    "RecursivelyCreateDir": lambda paths, _, path: paths.make_folders(path),
    "DeleteFile": lambda paths, original, path: paths.remove(path, original),
    "DeleteRecursively": lambda paths, original, path: paths.remove(path, original),
    "RenameFile": lambda paths, _, source, target, *__: paths.move(source, target),
    "CopyFile": _copied,
    "GetChildren": _children,
    "GetMatchingFiles": _matching,
}


def _text_of(given: Any) -> Any:
    """The path as str or bytes; None for a tensor in a graph, an open file, and other objects."""
    if isinstance(given, os.PathLike):
        return os.fspath(given)
    if isinstance(given, str | bytes):
        return given
    if type(given).__module__.startswith("tensorflow") and hasattr(given, "numpy"):
        found = given.numpy()
        return found.decode() if isinstance(found, bytes) else None
    return None


def _is_remote(path: Any) -> bool:
    text = os.fsdecode(path) if isinstance(path, str | bytes) else ""
    return "://" in text and not text.startswith(("file://", "ram://"))
