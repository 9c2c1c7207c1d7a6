"""Where the imported Keras computes, and whether the program wants that."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

# Set by the import hook: the first import of Keras came from the program, not from TensorFlow.
imported_by_program = False


def elsewhere() -> str | None:
    """Where a Keras 3 that the program imported computes, such as ``jax``; else None.

    TensorFlow beside such a Keras only reads data and saves files; with a GPU in sight it would
    take memory from the framework that trains.  TensorFlow imports Keras for itself too, whatever
    backend is configured: a program that does not use Keras computes with TensorFlow.
    """
    name = _configured()
    if name in (None, "tensorflow") or not (imported_by_program or _is_used_by_program()):
        return None
    return name


def forces_growth(value: str | None) -> bool:
    """Whether this TF_FORCE_GPU_ALLOW_GROWTH is Keras 3's, which writes it for other backends.

    It would have TensorFlow not take the whole card; under a plan nothing does.
    """
    return value == "true" and _configured() not in (None, "tensorflow")


def _configured() -> str | None:
    """The backend of the imported Keras 3; None where there is none."""
    backend = getattr(sys.modules.get("keras.src.backend.config"), "backend", None)
    return str(backend()) if callable(backend) else None


def _is_used_by_program() -> bool:
    """Whether a module of the program holds something of Keras.

    ``import keras`` after ``import tensorflow`` finds Keras imported, and no hook sees it.
    """
    for module in list(sys.modules.values()):
        if _is_of_program(module) and any(map(_is_of_keras, list(vars(module).values()))):
            return True
    return False


def _is_of_program(module: object) -> bool:
    """Whether this is a module that was not installed: the main one, or one beside it."""
    if type(module) is not ModuleType:
        return False
    if module.__name__ in ("__main__", "__mp_main__"):
        return True
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or module.__name__.partition(".")[0] == "gpuconf":
        return False
    installed = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    return "site-packages" not in path and not path.startswith(installed)


def _is_of_keras(value: object) -> bool:
    """Whether this is Keras, something in it, or an object of one of its classes."""
    kind = type(value)  # and not value.__class__: a lazy object would wake up
    if kind is ModuleType:
        home = vars(value).get("__name__")
    elif kind is FunctionType or issubclass(kind, type):
        home = value.__module__
    else:
        home = kind.__module__
    return isinstance(home, str) and home.partition(".")[0] == "keras"
