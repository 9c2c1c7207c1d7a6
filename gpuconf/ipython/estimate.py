"""``%gpuconf estimate model``: the memory of a model in the notebook, and whether it fits here."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from difflib import get_close_matches
from functools import reduce
from typing import Any

from gpuconf.commands.cli.estimate import estimated, training_of
from gpuconf.commands.cli.estimate_options import add_options, check_options
from gpuconf.commands.cli.output import drawn
from gpuconf.commands.estimate import plot
from gpuconf.commands.estimate.budget import Budget
from gpuconf.commands.estimate.document import document_of
from gpuconf.commands.estimate.memory_limit import limit_and_budget, limit_of_plan
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.ipython.drawing import of_estimate
from gpuconf.ipython.showing import NotebookOutput
from gpuconf.session.configure import activation, plan
from gpuconf.support.command_line import CommandParser, check_picture
from gpuconf.support.keras_api.families import family_on_any_backend

_EXAMPLE = "%gpuconf estimate model --batch-size 64"


def run(words: list[str], variables: Mapping[str, Any], output: NotebookOutput) -> None:
    """Estimate the model in a variable; without a name, the notebook's only model."""
    options = parser().parse_args(words)
    check_options(options)
    if options.plot is not None:
        check_picture(options.plot)
    target = options.target or _only_model(variables)
    model = _model(target, variables)
    backend = family_on_any_backend(model).backend
    limit_bytes, budget = _limit(options, backend)
    found = estimated(training_of(model), options, limit_bytes, output)
    picture = drawn(plot.draw, found, options.plot)
    if options.json:
        output.document(document_of(found, budget, target=target, plot=picture.path))
    else:
        output.show(of_estimate(found, budget))
    if picture.said is not None:
        output.note(picture.said)


def parser() -> argparse.ArgumentParser:
    """The command's arguments: a variable, and the options of the command line."""
    made = CommandParser(
        prog="%gpuconf estimate",
        description="Show how much GPU memory a fit() or predict() step of a model in this "
        "notebook needs. Nothing is trained, and the model is not changed. The limit is that of "
        "this kernel, unless --limit or --profile names another.",
    )
    about = "a variable that holds a Keras model (default: the only one there is)"
    made.add_argument("target", metavar="MODEL", nargs="?", help=about)
    add_options(made)
    return made


def model_names(variables: Mapping[str, Any]) -> list[str]:
    """The variables that are Keras models, without IPython's own names for results."""
    names = [name for name in variables if not name.startswith("_")]
    return [name for name in names if _is_model(variables[name])]


def _only_model(variables: Mapping[str, Any]) -> str:
    names = model_names(variables)
    if len({id(variables[name]) for name in names}) == 1:
        return names[0]
    which = f"which of {', '.join(names)}" if names else "there is no Keras model in this notebook"
    hint = f"%gpuconf estimate {names[0]}" if names else _EXAMPLE
    raise UsageError(f"no model was given: {which}", hint=hint)


def _model(target: str, variables: Mapping[str, Any]) -> Any:
    """The model behind ``model`` or ``trainer.model``; raises UsageError."""
    name, *attributes = target.split(".")
    if name not in variables:
        raise _unknown(target, variables)
    try:
        return reduce(getattr, attributes, variables[name])
    except AttributeError as error:
        raise UsageError(f"{target}: {error}", hint=_EXAMPLE) from None


def _unknown(target: str, variables: Mapping[str, Any]) -> UsageError:
    if target.endswith((".py", ".keras", ".h5", ".ipynb")) or ":" in target:
        return UsageError(
            f"{target} is a file, and `%gpuconf estimate` needs a model in this notebook",
            hint=f"!gpuconf estimate {target}",
        )
    models = model_names(variables)
    close = get_close_matches(target, models, n=1)
    hint = f"did you mean `%gpuconf estimate {close[0]}`?" if close else _EXAMPLE
    known = f"; its models are {', '.join(models)}" if models else ""
    return UsageError(f"this notebook has no variable {target}{known}", hint=hint)


def _is_model(value: object) -> bool:
    try:
        family_on_any_backend(value)
    except GpuconfError:
        return False
    return True


def _limit(options: argparse.Namespace, backend: str) -> tuple[int | None, Budget]:
    """The limit from the options; without one, the limit of this kernel."""
    if options.limit is not None or options.card is not None:
        profile, card_bytes = options.profile, options.card
        return limit_and_budget(options.limit, profile, card_bytes=card_bytes, backend=backend)
    if options.profile is not None:
        return limit_of_plan(plan(options.profile), backend)
    made = activation()
    if made is not None and made.plan is not None and made.plan.limits_memory and made.plan.gpus:
        return limit_of_plan(made.plan, backend)
    return limit_and_budget(None, None, backend=backend)
