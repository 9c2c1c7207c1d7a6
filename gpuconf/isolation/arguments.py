"""What goes to the process: the function and its arguments, in a memory file."""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.isolation.model_file import ModelFile, file_of, keras_of, load_model
from gpuconf.isolation.pickling import Pickler, pickled
from gpuconf.isolation.values import write_value


def write_call(
    descriptor: int, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Write a call into a memory file.

    Raises UsageError that names the argument, or variable of the function, that cannot be sent.
    """
    try:
        write_value(descriptor, (function, args, kwargs), _ArgumentPickler)
    except Exception as error:
        what, why = next(_culprits(function, args, kwargs), ("the function", error))
        raise UsageError(
            f"{what} cannot be sent to another process: {why}",
            hint="create it inside the function, or give the function a path or a NumPy array",
        ) from None


class _ArgumentPickler(Pickler):
    """A Keras model travels as its ``.keras`` file, and is a model again in the process."""

    def reducer_override(self, value: Any) -> Any:
        package = keras_of(value)
        if package is not None:
            value = file_of(value, package)
        if isinstance(value, ModelFile):
            return load_model, value.parts
        if isinstance(value, io.TextIOWrapper) and value not in (sys.stdout, sys.stderr):
            raise TypeError("cannot pickle an open file")  # cloudpickle would send its content
        return super().reducer_override(value)


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
    refused = {what: _refusal_of(value) for what, value in found.items()}
    yield from ((what, error) for what, error in refused.items() if error is not None)


def _refusal_of(value: Any) -> Exception | None:
    """Return the reason why a value cannot be pickled; None if it can."""
    try:
        pickled(value, _ArgumentPickler)
    except Exception as error:
        return error
    return None
