"""Get a model from the user's code: import the named object, and call it if it is a function.

Errors in that code are shown with the user's lines only, without lines from gpuconf or a framework.
"""

from __future__ import annotations

import inspect
import shlex
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gpuconf.commands.estimate.targets.restoring import RestoredModel
from gpuconf.commands.estimate.targets.user_modules import (
    ModelOrigin,
    OwnError,
    attribute_of,
    code_of_the_user,
    imported,
    place_of,
)
from gpuconf.commands.estimate.tensorflow.abstract_variables import abstract_variables
from gpuconf.errors import GpuconfError, UsageError

# Errors that a second try with real weights would raise again.
_FINAL = (SyntaxError, ImportError, NameError, OSError, MemoryError, SystemExit)
_PACKAGE = Path(__file__).resolve().parents[3]
_LIBRARIES = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_NOT_THE_USERS = tuple(f"{folder}/" for folder in (_PACKAGE, *_LIBRARIES))
_TRAINING = (".fit(", ".train_on_batch(", ".fit_generator(", ".evaluate(")
_BELOW_MAIN = 'put the main program under: if __name__ == "__main__":'
_MOST_FRAMES = 8
_LONGEST_MESSAGE = 1500


def model_from_code(target: str, *, folder: Path) -> RestoredModel:
    """Import and call ``target``; the model's variables take up no memory if possible.

    Code that reads its newly created weights fails if they have no memory. The code then runs again
    with real weights, and a note says so. Raises UsageError if ``target`` is not a function that
    returns a model, and GpuconfError with the user's lines for any error in the user's code.
    """
    place = place_of(target, folder)
    if str(place.folder) not in sys.path[:1]:
        sys.path.insert(0, str(place.folder))
    with _without_our_arguments(target):
        return _model(target, place)


@contextmanager
def _without_our_arguments(target: str) -> Iterator[None]:
    """Hide gpuconf's command line from a script that parses its own when it is imported."""
    before, sys.argv = sys.argv, [target.rpartition(":")[0]]
    try:
        yield
    finally:
        sys.argv = before


def _model(target: str, place: ModelOrigin) -> RestoredModel:
    before = set(sys.modules)
    try:
        return RestoredModel(_built(target, place, abstract_variables()))
    except OwnError as failure:
        if isinstance(failure.error, _FINAL) or trains_in(failure.error):
            raise error_in_user_code(target, failure.error, place) from None
    _forget(set(sys.modules) - before, place.folder)
    try:
        model = _built(target, place, nullcontext())
    except OwnError as failure:
        raise error_in_user_code(target, failure.error, place) from None
    note = f"{target} reads the weights that it creates, so they were created in host memory"
    return RestoredModel(model, (note,))


def _built(target: str, place: ModelOrigin, scope: AbstractContextManager[None]) -> Any:
    with scope:
        found = attribute_of(imported(place), place)
        if is_model(found):
            return found
        make = _callable(found, target)
        with code_of_the_user():
            made = make()
    if not is_model(made):
        raise _refusal(made, target, "returned")
    return made


def is_model(value: Any) -> bool:
    """Whether ``value`` is a model from any Keras version; imports none of them."""
    return not isinstance(value, type) and any(
        base.__name__ == "Model" and base.__module__.partition(".")[0] in ("keras", "tf_keras")
        for base in type(value).__mro__
    )


def _callable(found: Any, target: str) -> Callable[[], Any]:
    """The function that builds the model; UsageError if it cannot be called without arguments."""
    if not callable(found):
        raise _refusal(found, target, "is")
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise UsageError(
            f"{target} cannot be called without arguments: {error}", hint=_write(target)
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    make: Callable[[], Any] = found
    return make


def _refusal(value: Any, target: str, verb: str) -> UsageError:
    given = "None" if value is None else f"a value of type {type(value).__name__}"
    return UsageError(f"{target} {verb} {given}, not a Keras model", hint=_write(target))


def _write(target: str) -> str:
    """How to write a function that can be named as the target."""
    module = target.rpartition(":")[0]
    return f"write def make_model(): return …, then: gpuconf estimate {module}:make_model"


def _forget(names: Iterable[str], folder: Path) -> None:
    """Let the user's modules be imported again, since their objects were built without weights."""
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and folder in Path(file).parents and "site-packages" not in file:
            del sys.modules[name]
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            sys.modules[name].backend.clear_session()


def error_in_user_code(target: str, error: BaseException, place: ModelOrigin) -> GpuconfError:
    """An error with the traceback lines in the user's files; exit code 1, not a gpuconf bug."""
    lines = frames_shown(error, place.folder)
    if trains_in(error):
        return GpuconfError(
            f"{target} trains, but an estimate runs nothing on data:\n{lines.rstrip()}",
            hint=_BELOW_MAIN,
        )
    if isinstance(error, SystemExit):
        return GpuconfError(f"{target} ends the process:\n{lines.rstrip()}", hint=_BELOW_MAIN)
    return GpuconfError(
        f"{target} failed in code outside gpuconf:\n{lines}{last_line(error)}",
        hint=f"full traceback: {_reproduction(place)}",
    )


def last_line(error: BaseException) -> str:
    """The last line of a traceback: the exception's type and message, truncated if long."""
    last = "".join(traceback.format_exception_only(type(error), error)).rstrip()
    return last if len(last) <= _LONGEST_MESSAGE else f"{last[:_LONGEST_MESSAGE]} …"


def frames_shown(error: BaseException, folder: Path) -> str:
    """The traceback lines in the user's files, in Python's format."""
    return _lines(_user_frames(error), folder)


def _reproduction(place: ModelOrigin) -> str:
    """A command that shows the full traceback."""
    if place.file is not None:
        code = f"import runpy; runpy.run_path('{place.file.name}')['{place.attribute}']()"
        return f"cd {shlex.quote(str(place.folder))} && python -c {shlex.quote(code)}"
    return f"python -c 'import {place.module} as m; m.{place.attribute}()'"


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames in files that are neither gpuconf's nor installed; the last frame if none are."""
    frames = list(traceback.extract_tb(error.__traceback__))
    own = [frame for frame in frames if not frame.filename.startswith(("<", *_NOT_THE_USERS))]
    if isinstance(error, SyntaxError):  # the error names the file itself
        return own
    return (own or frames[-1:])[-_MOST_FRAMES:]


def trains_in(error: BaseException) -> bool:
    """Whether the error was raised during training that the user's code started."""
    lines = [frame.line or "" for frame in _user_frames(error)]
    return any(call in line for line in lines for call in _TRAINING)


def _lines(frames: list[traceback.FrameSummary], folder: Path) -> str:
    """The frames in Python's format; files in the folder get relative names."""
    prefix = f"{folder}/"
    shown = [
        traceback.FrameSummary(
            frame.filename.removeprefix(prefix), frame.lineno, frame.name, line=frame.line
        )
        for frame in frames
    ]
    return "".join(traceback.format_list(shown))
