"""Which backend the imported Keras uses, and whether the program uses Keras."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

from gpuconf.basics.callsite import is_installed

# Set by the import hook: the program, not TensorFlow, imported Keras first.
imported_by_program = False


def elsewhere() -> str | None:
    """Return the backend if the program uses Keras 3, such as ``jax``; None for TensorFlow.

    With such a backend, TensorFlow only reads data and saves files; if it saw a GPU, it would
    take memory from the framework that does the training. TensorFlow also imports Keras for its own
    use, whatever backend is configured, so a program that does not use Keras runs on TensorFlow.
    """
    name = _configured()
    if name in (None, "tensorflow") or not (imported_by_program or _is_used_by_program()):
        return None
    return name


def forces_growth(value: str | None) -> bool:
    """Whether Keras 3 set this TF_FORCE_GPU_ALLOW_GROWTH value, as it does for other backends.

    Keras sets it so that TensorFlow does not take all of the GPU's memory, which no framework does
    under a plan.
    """
    return value == "true" and _configured() not in (None, "tensorflow")


def _configured() -> str | None:
    """Return the backend of the imported Keras 3; None if it is not imported."""
    backend = getattr(sys.modules.get("keras.src.backend.config"), "backend", None)
    return str(backend()) if callable(backend) else None


def _is_used_by_program() -> bool:
    """Whether a module of the program refers to anything in Keras.

    ``import keras`` after ``import tensorflow`` finds Keras already imported, and runs no hook.
    """
    for module in list(sys.modules.values()):
        if _is_of_program(module) and any(map(_is_of_keras, list(vars(module).values()))):
            return True
    return False


def _is_of_program(module: object) -> bool:
    """Whether this module is part of the program: the main module, or one that is not installed."""
    if type(module) is not ModuleType:
        return False
    if module.__name__ in ("__main__", "__mp_main__"):
        return True
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or module.__name__.partition(".")[0] == "gpuconf":
        return False
    return not is_installed(path)


def _is_of_keras(value: object) -> bool:
    """Whether this is Keras, something in it, or an instance of one of its classes."""
    kind = type(value)  # not value.__class__, which would load a lazy object
    if kind is ModuleType:
        home = vars(value).get("__name__")
    elif kind is FunctionType or issubclass(kind, type):
        home = value.__module__
    else:
        home = kind.__module__
    return isinstance(home, str) and home.partition(".")[0] == "keras"
