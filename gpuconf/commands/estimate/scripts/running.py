"""Runs a script as ``__main__`` until it starts training."""

from __future__ import annotations

import runpy
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuconf.commands.estimate.scripts.training import OnTraining
from gpuconf.commands.estimate.scripts.watching import Watcher
from gpuconf.commands.estimate.targets.restoring import RestoredModel
from gpuconf.commands.estimate.targets.user_code import frames_shown, is_model, last_line
from gpuconf.commands.estimate.targets.user_modules import (
    OwnError,
    code_of_the_user,
    function_wanted,
)
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.symbolic import model_within


def is_script(target: str) -> bool:
    """Whether a command-line target is a script."""
    return target.endswith(".py") and Path(target).is_file()


def run_script(
    path: Path,
    arguments: Sequence[str],
    *,
    on_training: OnTraining,
    on_error: Callable[[GpuconfError], None],
) -> RestoredModel:
    """Run the script with these arguments until it trains, then call ``on_training``.

    ``on_training`` and ``on_error`` must not return, so that no ``finally`` of the script saves
    anything. If the script ends without training, returns its only model. Raises UsageError if the
    script has no model or several, and GpuconfError, with the script's own lines, for errors in the
    script.
    """
    given, path = path, path.resolve()
    Watcher(path.parent, on_training, on_error).watch()
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    try:
        with code_of_the_user():
            names = runpy.run_path(str(path), run_name="__main__")
    except OwnError as failure:
        if not _ended_well(failure.error):
            raise _own_error(failure.error, path, arguments) from None
        names = {}
    models = _outermost([each for each in names.values() if is_model(each)])
    if len(models) != 1:
        raise _without_training(given, models)
    note = f"{path.name} ended without training: its only model is estimated"
    return RestoredModel(models[0], (note,))


def remove_generated_code() -> None:
    """Remove the files that TensorFlow generated from the script's functions.

    TensorFlow does this when Python exits, but a script that trains never gets that far.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file") and module.__file__ is not None:
            with suppress(OSError):
                Path(module.__file__).unlink()


def _ended_well(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _own_error(error: BaseException, path: Path, arguments: Sequence[str]) -> GpuconfError:
    lines = frames_shown(error, path.parent)
    command = shlex.join(["python", path.name, *arguments])
    if isinstance(error, SystemExit):
        return GpuconfError(
            f"{path.name} ended before training (sys.exit({error.code!r})):\n{lines.rstrip()}",
            hint=f"put script arguments after --: gpuconf estimate {path.name} -- --epochs 1",
        )
    return GpuconfError(
        f"{path.name} failed before training, in code outside gpuconf:\n{lines}{last_line(error)}",
        hint=f"full traceback: cd {shlex.quote(str(path.parent))} && {command}",
    )


def _outermost(models: list[Any]) -> list[Any]:
    """Return each model once, without models that are part of another model."""
    found = list({id(each): each for each in models}.values())
    inner = {id(layer) for each in found for layer in [*layers_of(each), model_within(each)]}
    return [each for each in found if id(each) not in inner]


def _without_training(path: Path, models: Sequence[Any]) -> UsageError:
    wanted = function_wanted(path)
    made = ", ".join(f"{each.name} ({type(each).__name__})" for each in models)
    what = f"created {len(models)} models: {made}" if models else "created no Keras model"
    return UsageError(
        f"{path.name} ended without training, and {what}; which of its functions builds the model?",
        hint=wanted.hint,
    )
