"""What comes back: the function's result as values that need no GPU, or its exception.

Unpickling a result must not start CUDA in the caller, because that would take memory that the next
call needs.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from gpuconf.errors import IsolatedProcessError, OriginalTraceback, UsageError
from gpuconf.isolation.model_file import ModelFile, file_of, keras_of
from gpuconf.isolation.pickling import Pickler, pickled, read_value, write_value

_OWN_FOLDER = os.path.dirname(__file__)
_RESULTS = "return numbers, NumPy arrays or a Keras model, or save the result to a file"


def write_result(descriptor: int, result: Any) -> None:
    """Write what the function returned into a memory file.

    Raises UsageError if the result cannot be sent to another process.
    """
    try:
        write_value(descriptor, (result, None), _ResultPickler)
    except Exception as error:
        raise UsageError(
            f"the result, of type {type(result).__name__}, cannot be sent to the caller: {error}",
            hint=_RESULTS,
        ) from error


def write_error(descriptor: int, error: BaseException) -> None:
    """Write the exception that ended the function into a memory file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        trace = trace.tb_next
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    text = "".join(traceback.format_exception(type(error), error, trace))
    try:
        content = pickled(error, _ResultPickler)
        pickle.loads(content)
    except Exception:
        content = b""
    write_value(descriptor, (None, (content, message, text)), Pickler)


def read_answer(descriptor: int) -> Any:
    """Return what the function returned, or raise what it raised.

    The cause of the exception shows the function's lines.  Raises IsolatedProcessError for a
    result or an exception that cannot be unpickled here.
    """
    try:
        result, failure = read_value(descriptor)
    except Exception as why:
        said = f"the result cannot be unpickled here: {type(why).__name__}: {why}"
        raise IsolatedProcessError(said, hint=_RESULTS) from why
    if failure is None:
        return result
    content, message, text = failure
    try:
        error = pickle.loads(content)
    except Exception:
        error = IsolatedProcessError(f"the isolated function raised {message}")
    raise error from OriginalTraceback(text)


class _ResultPickler(Pickler):
    """Tensors become arrays, and a Keras model becomes a `ModelFile`.

    An exception is recreated without calling its ``__init__``, which may need other arguments.
    """

    def reducer_override(self, value: Any) -> Any:
        for package, names, convert in _CONVERSIONS:
            if package in sys.modules and _is_a(value, package, names):
                return convert(value)
        keras = keras_of(value)
        if keras is not None:
            return ModelFile, file_of(value, keras).parts
        if isinstance(value, BaseException) and _is_whole_without_init(type(value)):
            return _without_init, (type(value), value.args), vars(value)
        return super().reducer_override(value)


def _is_whole_without_init(kind: type[BaseException]) -> bool:
    """Whether ``args`` and the dictionary hold all of an exception, unlike for a SyntaxError."""
    built_in = [each for each in kind.__mro__ if each.__module__ == "builtins"]
    has_fields = any(each.__basicsize__ > BaseException.__basicsize__ for each in built_in)
    return not has_fields and kind.__reduce__ is BaseException.__reduce__


def _without_init(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    return kind.__new__(kind, *args)


def _is_a(value: Any, package: str, names: tuple[str, ...]) -> bool:
    return any(
        each.__name__ in names and each.__module__.split(".")[0] == package
        for each in type(value).__mro__
    )


def _as_array(tensor: Any) -> Any:
    import numpy as np

    return np.asarray, (np.asarray(tensor),)


def _key_data(key: Any) -> Any:
    from jax.random import key_data

    return _as_array(key_data(key))


def _on_cpu(tensor: Any) -> Any:
    if tensor.device.type == "cpu":
        return NotImplemented  # PyTorch's own way
    copy = tensor.detach().cpu()
    if type(tensor).__name__ == "Parameter":
        return type(tensor), (copy, tensor.requires_grad)
    return copy.requires_grad_, (tensor.requires_grad,)


def _without_model(history: Any) -> Any:
    kept = {name: value for name, value in vars(history).items() if name not in ("_model", "model")}
    return types.SimpleNamespace, (), kept


# The package of a type, its names in the package's versions, and how a value of it is pickled.
_CONVERSIONS: tuple[tuple[str, tuple[str, ...], Callable[[Any], Any]], ...] = (
    ("tensorflow", ("EagerTensor", "BaseResourceVariable"), _as_array),
    ("jaxlib", ("ArrayImpl",), _as_array),
    ("jax", ("PRNGKeyArray",), _key_data),
    ("torch", ("Tensor",), _on_cpu),
    ("keras", ("KerasVariable", "Variable"), _as_array),
    ("keras", ("History",), _without_model),
    ("tf_keras", ("History",), _without_model),
)
