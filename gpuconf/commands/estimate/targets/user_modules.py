"""Find and import ``module:function`` or ``file.py:function`` as Python would."""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from gpuconf.errors import UsageError

_MOST_NAMES = 6


class ModelOrigin(NamedTuple):
    """Where a model is built: a module, the folder to import it from, and a name in it.

    ``file`` is set if the module was given by its path and is not in a package.
    """

    module: str
    attribute: str
    folder: Path
    file: Path | None = None


class OwnError(Exception):
    """The user's code raised ``error``."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def code_of_the_user() -> Iterator[None]:
    """Re-raise exceptions, including SystemExit but not KeyboardInterrupt, as OwnError."""
    try:
        yield
    except OwnError:
        raise
    except (Exception, SystemExit) as error:
        raise OwnError(error) from error


def place_of(target: str, folder: Path) -> ModelOrigin:
    """The parts of ``target``; UsageError if it has neither form.

    A file in a package is imported as part of the package, so that its relative imports work.
    """
    module, _, attribute = target.rpartition(":")
    attribute = attribute.removesuffix("()")
    if module.endswith(".py") or "/" in module:
        file = Path(module if module.endswith(".py") else f"{module}.py")
        return _place_in_file(file, attribute)
    names = [*module.split("."), *attribute.split(".")]
    if not all(name.isidentifier() for name in names):
        raise UsageError(
            f"{target!r} is neither an existing file nor module:function",
            hint="name model.keras, or: gpuconf estimate my_module:make_model",
        )
    return ModelOrigin(module, attribute, folder)


def _place_in_file(path: Path, attribute: str) -> ModelOrigin:
    if not path.is_file():
        raise UsageError(f"there is no file {path}", hint=f"ls {shlex.quote(str(path.parent))}")
    if not all(name.isidentifier() for name in attribute.split(".")):
        raise UsageError(
            f"{attribute!r} is not the name of a function in {path}",
            hint=f"gpuconf estimate {shlex.quote(str(path))}:make_model",
        )
    path = path.resolve()
    folder, names = path.parent, [path.stem]
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        names.insert(0, folder.name)
        folder = folder.parent
    return ModelOrigin(".".join(names), attribute, folder, path if len(names) == 1 else None)


def imported(place: ModelOrigin) -> ModuleType:
    """Import the module; UsageError if it does not exist, OwnError if importing it raises."""
    if place.file is not None:
        return _imported_file(place.module, place.file)
    try:
        with code_of_the_user():
            return importlib.import_module(place.module)
    except OwnError as failure:
        missing = failure.error
        if not isinstance(missing, ModuleNotFoundError) or not missing.name:
            raise
        if not f"{place.module}.".startswith(f"{missing.name}."):
            raise
        raise UsageError(
            f"there is no module {place.module!r}, either in this folder or installed",
            hint=f"name its file: gpuconf estimate path/to/file.py:{place.attribute}",
        ) from None


def _imported_file(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look there
    with code_of_the_user():
        spec.loader.exec_module(module)
    return module


def attribute_of(module: ModuleType, place: ModelOrigin) -> Any:
    """The object that ``place`` names, such as ``make`` or ``Models.small``; UsageError if none."""
    found: Any = module
    for name in place.attribute.split("."):
        if not hasattr(found, name):
            raise _nothing_there(found, name, place)
        found = getattr(found, name)
    return found


def _nothing_there(holder: Any, name: str, place: ModelOrigin) -> UsageError:
    where = place.module if place.file is None else place.file.name
    own = [
        each
        for each, value in vars(holder).items()
        if callable(value) and getattr(value, "__module__", None) == place.module
    ]
    there = ", ".join(own[:_MOST_NAMES])
    hint = f"available: {there}" if there else f"write one: def {name}(): return model"
    return UsageError(f"{where} has no {place.attribute!r}", hint=hint)


def function_wanted(file: Path) -> UsageError:
    """The error for a file given without a function."""
    return UsageError(
        f"{file} is a program; which of its functions builds the model?",
        hint=f"name it: gpuconf estimate {shlex.quote(str(file))}:FUNCTION",
    )
