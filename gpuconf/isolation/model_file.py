"""A Keras model between two processes: the content of its ``.keras`` file."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from gpuconf.basics.units import sized

_FILE = "model.keras"


class ModelFile:
    """A Keras model that an isolated function returned; it uses no GPU until it is loaded.

    As an argument to an isolated function, it becomes a model again.
    """

    def __init__(self, content: bytes, package: str, custom_objects: bytes) -> None:
        # The last is pickled: to unpickle the user's classes imports Keras.
        self.parts = (content, package, custom_objects)

    def __repr__(self) -> str:
        return f"<Keras model, {sized(len(self.parts[0]))}: .load(), .save(path)>"

    def load(self) -> Any:
        """Return the model, with its optimizer's state.

        Keras creates its variables on this process's GPU, if this process may use one.
        """
        _, package, custom_objects = self.parts
        models = import_module(f"{package}.models")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, _FILE)
            self.save(path)
            # The user's own process has made it, so its code is as safe as the script's.
            return models.load_model(
                path, custom_objects=pickle.loads(custom_objects), safe_mode=False
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model's ``.keras`` file to ``path``."""
        with open(path, "wb") as file:
            file.write(self.parts[0])


def load_model(content: bytes, package: str, custom_objects: bytes) -> Any:
    """Return the model with these parts; a pickle of a model refers to this function."""
    return ModelFile(content, package, custom_objects).load()


def keras_of(value: Any) -> str | None:
    """Return the package of a Keras model, keras or tf_keras; None for other values."""
    for package in ("keras", "tf_keras"):
        model_type = getattr(sys.modules.get(package), "Model", None)
        if model_type is not None and isinstance(value, model_type):
            return package
    return None


def file_of(model: Any, package: str) -> ModelFile:
    """Return a model as a file, with the functions and classes in it that are not Keras's own.

    Raises what Keras raises for a model that it cannot save.
    """
    from gpuconf.isolation.pickling import pickled, refusal_of

    parts = _own_parts(model, package)
    own = _by_name(package, (each for each in parts if refusal_of(each) is None))
    with tempfile.TemporaryDirectory() as folder, _named(own):
        path = os.path.join(folder, _FILE)
        model.save(path)
        with open(path, "rb") as file:
            content = file.read()
    registered_name = import_module(f"{package}.utils").get_registered_name
    own = {registered_name(each): each for each in own.values()} | own
    return ModelFile(content, package, pickled(own))


def _own_parts(model: Any, package: str) -> Iterator[Any]:
    """Yield the functions and classes that a model refers to and that are not Keras's own."""
    ahead, seen = [model], dict[int, Any]()
    while ahead:
        value = ahead.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # kept, so that no other value gets its id
        kind = type(value)
        if isinstance(value, types.FunctionType):
            # The module of its code, which is Keras's where Keras has wrapped another function.
            if not _is_in(package, value.__globals__.get("__name__", "")):
                yield value
        elif isinstance(value, (list, tuple)):
            ahead += value
        elif isinstance(value, Mapping):
            ahead += value.values()
        elif _is_in(package, kind.__module__) or hasattr(kind, "get_config"):
            ahead += getattr(value, "__dict__", {}).values()
            if not _is_in(package, kind.__module__) and id(kind) not in seen:
                seen[id(kind)] = kind
                yield kind


def _is_in(package: str, module: str) -> bool:
    return module.split(".", maxsplit=1)[0] == package


def _by_name(package: str, parts: Iterable[Any]) -> dict[str, Any]:
    """Return functions and classes by the names under which the file refers to them.

    Keras writes a lambda's code into the file, without the variables that it uses. A function with
    the same name as one of Keras's would replace that one too.
    """
    of_functions = ("activations", "losses", "metrics")
    modules = [import_module(f"{package}.{name}") for name in of_functions]
    found = dict[str, Any]()
    for each in parts:
        name = each.__name__
        if name == "<lambda>":
            if not (each.__closure__ or each.__code__.co_names):
                continue
            name = "lambda_of_gpuconf"
        is_function = isinstance(each, types.FunctionType)
        while name in found or (is_function and any(hasattr(module, name) for module in modules)):
            name += "_"
        found[name] = each
    return found


@contextmanager
def _named(parts: Mapping[str, Any]) -> Iterator[None]:
    """Within the context, functions and classes have these names."""
    before = [(each, each.__name__) for each in parts.values()]
    try:
        for name, each in parts.items():
            each.__name__ = name
        yield
    finally:
        for each, name in before:
            each.__name__ = name
