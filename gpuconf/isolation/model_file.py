"""A Keras model between two processes: the content of its ``.keras`` file."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from importlib import import_module
from typing import Any

from gpuconf.basics.units import sized
from gpuconf.support.keras_api.layers import layers_of

_FILE = "model.keras"


class ModelFile:
    """A Keras model that an isolated function has returned; it uses no GPU until it is loaded.

    As an argument of an isolated function it is a model again.
    """

    def __init__(self, content: bytes, package: str, classes: bytes) -> None:
        self.parts = (content, package, classes)  # classes are pickled: loading them imports Keras

    def __repr__(self) -> str:
        return f"<Keras model, {sized(len(self.parts[0]))}: .load(), .save(path)>"

    def load(self) -> Any:
        """Return the model, with its optimizer's state.

        Keras creates its variables on this process's GPU, if this process may use one.
        """
        _, package, classes = self.parts
        models = import_module(f"{package}.models")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, _FILE)
            self.save(path)
            return models.load_model(path, custom_objects=pickle.loads(classes))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model's ``.keras`` file to ``path``."""
        with open(path, "wb") as file:
            file.write(self.parts[0])


def load_model(content: bytes, package: str, classes: bytes) -> Any:
    """Return the model with these parts; a pickle of a model refers to this function."""
    return ModelFile(content, package, classes).load()


def keras_of(value: Any) -> str | None:
    """Return the package of a Keras model, keras or tf_keras; None for other values."""
    for package in ("keras", "tf_keras"):
        model_type = getattr(sys.modules.get(package), "Model", None)
        if model_type is not None and isinstance(value, model_type):
            return package
    return None


def file_of(model: Any, package: str) -> ModelFile:
    """Return a model as a file, together with the classes of its layers that are not Keras's own.

    Raises what Keras raises for a model that it cannot save.
    """
    from gpuconf.isolation.pickling import pickled

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, _FILE)
        model.save(path)
        with open(path, "rb") as file:
            content = file.read()
    types = {type(layer) for layer in layers_of(model, include_self=True)}
    own = {each.__name__: each for each in types if each.__module__.split(".")[0] != package}
    return ModelFile(content, package, pickled(own))
