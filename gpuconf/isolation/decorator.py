"""`isolated`: the decorator, and what it refuses."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import math
import os
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from gpuconf.errors import (
    GpuconfError,
    MissingDependencyError,
    ShortageError,
    UsageError,
    without_frames,
)
from gpuconf.machine.cards.cuda_driver import has_primary_context

_P = ParamSpec("_P")
_R = TypeVar("_R")
_UNSUITABLE = (
    inspect.isgeneratorfunction,
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
)


@overload
def isolated(function: Callable[_P, _R], /, **options: Any) -> Callable[_P, _R]: ...
@overload
def isolated(
    *,
    profile: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    ahead: bool = False,
    **overrides: object,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def isolated(
    function: Callable[..., Any] | None = None,
    /,
    *,
    profile: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    ahead: bool = False,
    **overrides: object,
) -> Callable[..., Any]:
    """Run a function in its own process, which returns all GPU memory when the call ends.

    Use it as a decorator, with or without options, or as ``isolated(function)(args)``. Each call
    starts a new Python process, so it imports its framework again. ``profile`` and ``overrides``
    are as in :func:`configure`; the default is this process's profile. The call is ended
    ``timeout_s`` seconds after it starts. With ``ahead``, a process for the next call starts while
    one runs, and imports TensorFlow, PyTorch or JAX if the last call did; until its call it uses no
    GPU memory.

    Arguments, results, and the globals and closures that the function uses are copied. In a result,
    tensors become NumPy arrays (PyTorch: tensors on the CPU), and a Keras model becomes a
    :class:`ModelFile`. The function's exception is raised here, with its traceback as the cause.
    Its output appears here, and Ctrl-C interrupts it.

    Raises UsageError and ProfileError for bad options.  A call raises UsageError for an argument
    that cannot be copied, such as a dataset or an open file, IsolatedProcessError if the process
    ends without a result, MissingDependencyError without cloudpickle, and GpuconfError on systems
    other than Linux.
    """
    _check_options(timeout_s, overrides)
    if function is None:
        return functools.partial(
            isolated, profile=profile, timeout_s=timeout_s, ahead=ahead, **overrides
        )
    is_unsuitable = any(check(function) for check in _UNSUITABLE)
    if is_unsuitable or not callable(function):
        raise UsageError(
            f"gpuconf.isolated: expected a function that returns its result; got {function!r}",
            hint="return a list instead of a generator" if is_unsuitable else None,
        )
    settings = {"profile": None if profile is None else os.fspath(profile), **overrides}

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        _refuse_if_unusable()
        from gpuconf.isolation.process import run_call

        try:
            return run_call(
                function,
                args,
                kwargs,
                settings=settings,
                timeout_s=timeout_s,
                ahead_for=called if ahead else None,
            )
        except GpuconfError as error:
            if isinstance(error, ShortageError) and has_primary_context():
                error.hint = (
                    "this process uses the GPU too: compute only in isolated functions, or call "
                    '`gpuconf.configure("cpu-only")` here first'
                )
            raise without_frames(error) from error.__cause__

    return called


def _check_options(timeout_s: float | None, overrides: dict[str, object]) -> None:
    """Raise `configure`'s error for a bad override, which it would not read under a run."""
    is_number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
    if timeout_s is not None and not (is_number and 0 < timeout_s < math.inf):
        raise UsageError(
            "gpuconf.isolated: timeout_s: expected a number of seconds above 0, such as 600; "
            f"got {timeout_s!r}"
        )
    if overrides:
        from gpuconf.profile.overrides import checked_nodes

        checked_nodes(overrides)


def _refuse_if_unusable() -> None:
    if sys.platform != "linux":
        raise GpuconfError(f"gpuconf.isolated works only on Linux; this is {sys.platform}")
    if importlib.util.find_spec("cloudpickle") is None:
        raise MissingDependencyError(
            "gpuconf.isolated needs cloudpickle", hint="pip install 'gpuconf[isolated]'"
        )
    import multiprocessing

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(
            "a multiprocessing worker imports this script and would start the call again",
            hint='put the calls under `if __name__ == "__main__":`',
        )
