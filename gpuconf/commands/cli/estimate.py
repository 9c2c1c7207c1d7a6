"""``gpuconf estimate``: a model's GPU memory use, and the largest batch that fits."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpuconf.commands.cli.estimate_options import (
    add_options,
    check_arguments,
    check_for_backend,
    check_options,
    step_options,
)
from gpuconf.commands.cli.main import exit_code_of
from gpuconf.commands.cli.output import Output, drawn
from gpuconf.commands.cli.redirect_output import stdout_to_stderr
from gpuconf.errors import GpuconfError
from gpuconf.support.command_line import (
    CommandParser,
    check_picture,
    describe,
)

if TYPE_CHECKING:
    from gpuconf.commands.estimate.budget import Budget
    from gpuconf.commands.estimate.memory_estimate import MemoryEstimate
    from gpuconf.commands.estimate.scripts.training import Training

_DEFAULT_BATCH = 32
_NO_LIMIT = "no limit given: add --limit, --card, or --profile to find the largest batch"
_DESCRIPTION = """\
Show how much GPU memory a step of fit() or predict() needs: the peak, what
stays allocated, the memory of each layer, and the largest batch within a limit.
TensorFlow traces the model's own training step and runs it on a simulated GPU
that skips every kernel, so the sizes come from TensorFlow's own allocator: no
GPU is needed, and no weights or data are read. If Keras would have XLA compile
the step on a GPU, XLA compiles it here too; with KERAS_BACKEND=jax that is all,
and nothing runs. TARGET is a training script, a saved model (.keras, .h5), or a
function that returns one, such as my_module:make_model or
path/to/file.py:make_model. A script runs until it starts training: its model,
optimizer, loss, and batch are used, but nothing is trained."""

_EXAMPLES = """\
examples:
  gpuconf estimate train.py --card 8GiB
  gpuconf estimate train.py --limit 6GiB
  gpuconf estimate train.py -- --epochs 3 --data photos    # its own arguments
  gpuconf estimate model.keras --batch-size 64 --limit 6GiB
  gpuconf estimate models:make_model --profile shared-desktop
  gpuconf estimate train.py:build --optimizer sgd --mixed-precision float16
  gpuconf estimate model.keras --inference --json | jq .peak_bytes
  gpuconf estimate models:unet --input-shape 512,512,3 --plot memory.svg

exit codes:
  0    it fits, or no limit was given
  1    it does not fit, the model's own code failed, or Keras's backend cannot
       be estimated
  2    bad usage, such as a file without a model
  3    a bug in gpuconf
  4    a required library is not installed
  130  interrupted"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    about = "train.py, model.keras, model.h5, or module:function"
    parser.add_argument("target", metavar="TARGET", help=about)
    add_options(parser)
    parser.set_defaults(command=run)
    if isinstance(parser, CommandParser):
        parser.after_dashes = "arguments"


def run(options: argparse.Namespace, output: Output) -> int:
    """Estimate, print the report, and return an exit code that says whether it fits."""
    from gpuconf.commands.estimate.loading import backend_wanted
    from gpuconf.commands.estimate.memory_limit import limit_and_budget

    output.as_json = options.json
    backend = backend_wanted()
    check_arguments(options)
    check_options(options)
    if backend != "tensorflow":
        check_for_backend(options, backend)
    if options.plot is not None:
        check_picture(options.plot)
    limit_bytes, budget = limit_and_budget(
        options.limit, options.profile, card_bytes=options.card, backend=backend
    )
    budget = budget._replace(allow_growth=step_options(options)["allow_growth"])

    def answer(found: Training, own_prints: ExitStack) -> int:
        with own_prints:
            estimate = estimated(found, options, limit_bytes, output)
        estimate = estimate._replace(notes=(*found.notes, *estimate.notes))
        return _shown(estimate, budget, options, output)

    own_prints = ExitStack()
    with own_prints:
        own_prints.enter_context(stdout_to_stderr())
        found = _found(options, output, lambda found: answer(found, own_prints.pop_all()))
        return answer(found, own_prints.pop_all())


def _shown(
    estimate: MemoryEstimate, budget: Budget, options: argparse.Namespace, output: Output
) -> int:
    """Print the report; return the exit code that says whether it fits."""
    from gpuconf.commands.estimate import plot

    picture = drawn(plot.draw, estimate, options.plot)
    _show(estimate, budget, picture.path, options, output)
    output.flush()
    if picture.said is not None:
        output.note(picture.said)
    return max(picture.code, int(estimate.fits is False))


def _found(
    options: argparse.Namespace, output: Output, answer: Callable[[Training], int]
) -> Training:
    """Find what to estimate.

    For a script that trains, ``answer`` runs at the training call and the process ends there.  No
    further line of the script runs, not even a ``finally``.
    """
    from gpuconf.commands.estimate.loading import import_tensorflow, load_model, stay_off_the_gpu
    from gpuconf.commands.estimate.scripts.running import is_script, run_script
    from gpuconf.simcard.compiling import check_platform

    target = options.target
    check_platform()  # before a framework is imported
    stay_off_the_gpu()
    if not is_script(target):
        output.progress_for_people(f"building {target}")
        loaded = load_model(target)
    else:
        output.progress_for_people(f"running {target} until it trains")
        import_tensorflow(is_without_gpus=True)
        loaded = run_script(
            Path(target),
            options.arguments,
            on_training=lambda found: _end(lambda: answer(found), output),
            on_error=lambda error: _end(lambda: _raise(error), output),
        )
    return training_of(loaded.model, loaded.notes)


def training_of(model: Any, notes: tuple[str, ...] = ()) -> Training:
    """Wrap a model whose training options are unknown."""
    from gpuconf.commands.estimate.scripts.training import Training

    return Training(model, _DEFAULT_BATCH, notes=notes)


def _end(action: Callable[[], int], output: Output) -> NoReturn:
    """Run the rest of the command, then end the process immediately."""
    from gpuconf.commands.estimate.scripts.running import remove_generated_code

    code = 3
    try:
        code = exit_code_of(action, output)
        remove_generated_code()
    finally:
        os._exit(code)


def _raise(error: GpuconfError) -> NoReturn:
    raise error


def estimated(
    found: Training, options: argparse.Namespace, limit_bytes: int | None, output: Output
) -> MemoryEstimate:
    """Return the estimate, with advice if it was requested or the batch does not fit."""
    from gpuconf.commands.estimate.scripts.estimating import estimate_training

    batch = options.batch_size or found.batch_size
    return estimate_training(
        found,
        batch,
        **step_options(options),
        limit=limit_bytes,
        phases=True,
        advise=True if options.advice else None,
        progress=output.progress_for_people,
    )


def _show(
    estimate: MemoryEstimate,
    budget: Budget,
    picture: str | None,
    options: argparse.Namespace,
    output: Output,
) -> None:
    if output.as_json:
        from gpuconf.commands.estimate.document import document_of

        document = document_of(estimate, budget, target=options.target, plot=picture)
        output.document(document)
        return
    from gpuconf.commands.estimate.text import report

    if estimate.limit_bytes is None:
        estimate = estimate._replace(notes=(*estimate.notes, _NO_LIMIT))
    output.lines(report(estimate, budget=budget, width=output.width, verbose=options.verbose))
