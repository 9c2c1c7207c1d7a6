"""What goes to the process: the function and its arguments, in a memory file."""

from __future__ import annotations

import inspect
import io
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any

import cloudpickle

from gpuconf.errors import UsageError
from gpuconf.isolation.model_file import ModelFile, file_of, keras_of, load_model
from gpuconf.isolation.pickling import Pickler, refusal_of, write_value

_SPAWNED_MAIN = "__mp_main__"  # the script's name in a spawned worker of multiprocessing


def write_call(
    descriptor: int, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Write a call into a memory file.

    Raises a UsageError that names the argument, or the variable of the function, that cannot be
    sent.
    """
    if _SPAWNED_MAIN in sys.modules:
        cloudpickle.register_pickle_by_value(sys.modules[_SPAWNED_MAIN])
    try:
        write_value(descriptor, (function, args, kwargs), _ArgumentPickler)
    except Exception as error:
        what, why = next(_culprits(function, args, kwargs), ("the function", error))
        raise UsageError(
            f"{what} cannot be sent to another process: {why}",
            hint="create it inside the function, or pass the function a path or a NumPy array",
        ) from None


class _ArgumentPickler(Pickler):
    """A Keras model travels as its ``.keras`` file, and becomes a model again in the process.

    A decorated function of a module is found there by its name, with that module's globals.
    Whatever ``__main__`` defines is also in the process's ``__main__``, where pickle looks for it.
    """

    def reducer_override(self, value: Any) -> Any:
        package = keras_of(value)
        if package is not None:
            value = file_of(value, package)
        if isinstance(value, ModelFile):
            return load_model, value.parts
        if isinstance(value, io.TextIOWrapper) and value not in (sys.stdout, sys.stderr):
            raise TypeError("cannot pickle an open file")  # cloudpickle would send its content
        place = _place_of(value) if isinstance(value, types.FunctionType) else None
        if place is not None:
            return _function_at, place
        reduced = super().reducer_override(value)
        if isinstance(reduced, tuple) and _is_defined_in_main(value):
            make, parts, *others = reduced
            return (_made_in_main, (value.__qualname__, make, parts), *others)
        return reduced


def _place_of(function: types.FunctionType) -> tuple[str, str, int] | None:
    """Return a decorated function's module, its name there, and the number of its decorators.

    None for a function that a new process does not find in this way, and for one that pickle finds.
    """
    module, name, decorators = function.__module__, function.__qualname__, 0
    try:
        found = attrgetter(name)(sys.modules[module])
        while found is not function:
            found, decorators = found.__wrapped__, decorators + 1
    except (KeyError, AttributeError):
        return None
    return (module, name, decorators) if decorators and _is_importable(module) else None


def _function_at(module: str, name: str, decorators: int) -> Any:
    found = attrgetter(name)(import_module(module))
    for _ in range(decorators):
        found = found.__wrapped__
    return found


def _is_importable(name: str) -> bool:
    """Whether a new process finds this module by its name, unlike one loaded from a path."""
    if name == "__main__":
        return False
    path = getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None)
    finders = [each for each in sys.meta_path if hasattr(each, "find_spec")]
    specs = filter(None, (each.find_spec(name, path) for each in finders))
    origin = getattr(next(specs, None), "origin", None)
    return origin is not None and origin == getattr(sys.modules[name], "__file__", None)


def _is_defined_in_main(value: Any) -> bool:
    is_definition = isinstance(value, (type, types.FunctionType))
    if not is_definition or value.__module__ not in ("__main__", _SPAWNED_MAIN):
        return False
    try:
        return attrgetter(value.__qualname__)(sys.modules["__main__"]) is value
    except AttributeError:
        return False


def _made_in_main(name: str, make: Callable[..., Any], parts: Sequence[Any]) -> Any:
    """Create a definition where pickle looks for it; the classes around it may not exist yet."""
    value = make(*parts)
    value.__qualname__ = name
    place: Any = sys.modules["__main__"]
    *outer, last = name.split(".")
    for each in outer:
        if not hasattr(place, each):
            setattr(place, each, types.SimpleNamespace())
        place = getattr(place, each)
    setattr(place, last, value)
    return value


def _culprits(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Exception]]:
    """Yield what cannot be pickled, and the reason."""
    name = getattr(function, "__qualname__", repr(function))
    found = {f"argument {place} of {name}": value for place, value in enumerate(args, start=1)}
    found |= {f"argument {key} of {name}": value for key, value in kwargs.items()}
    if inspect.isfunction(function):
        used = inspect.getclosurevars(function)
        variables = {**used.globals, **used.nonlocals}
        found |= {f"{key}, which {name} uses,": value for key, value in variables.items()}
    refused = {what: refusal_of(value, _ArgumentPickler) for what, value in found.items()}
    yield from ((what, error) for what, error in refused.items() if error is not None)
