"""``gpuconf estimate``: what a model costs in GPU memory, and the largest batch that fits."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpuconf.cli.main import exit_code_of
from gpuconf.cli.output import Output, drawn
from gpuconf.cli.users_prints import stdout_to_stderr
from gpuconf.command_line import (
    CommandParser,
    card_size_argument,
    check_picture,
    describe,
    positive,
    size_argument,
)
from gpuconf.errors import GpuconfError, UsageError

if TYPE_CHECKING:
    from gpuconf.footprint.budget import Budget
    from gpuconf.footprint.memory_estimate import MemoryEstimate
    from gpuconf.footprint.scripts.training import Training

_DEFAULT_BATCH = 32
_OF_TENSORFLOW = {
    "probe": "a probe reads TensorFlow's allocator",
    "plot": "a compiled step is one block of memory, of which there is no course to draw",
    "workspace-limit": "the cap is TensorFlow's",
}
_PRECISIONS = ("float16", "bfloat16")

_DESCRIPTION = """\
Say how much GPU memory a step of fit() or predict() takes: the peak, what
remains, the share of each layer, and the largest batch under a limit. The
model's own training step is traced by TensorFlow and replayed in a simulation
of its allocator: no GPU is needed, no weights are read, no data is touched.
Where Keras hands the step to XLA on a GPU, XLA compiles it here too, for a
simulated card; with KERAS_BACKEND=jax, always.
TARGET is a training script, a saved model (.keras, .h5), or the function that
makes one, as my_module:make_model or path/to/file.py:make_model. A script is
run until it first trains; model, optimizer, loss and batch are taken from
there, nothing is trained, and the script ends."""

_EXAMPLES = """\
examples:
  gpuconf estimate train.py --limit 6GiB
  gpuconf estimate train.py -- --epochs 3 --data photos    # its own arguments
  gpuconf estimate model.keras --batch-size 64 --limit 6GiB
  gpuconf estimate models:make_model --profile shared-desktop
  gpuconf estimate train.py:build --optimizer sgd --mixed-precision float16
  gpuconf estimate model.keras --inference --json | jq .peak_bytes
  gpuconf estimate models:unet --input-shape 512,512,3 --plot memory.svg

exit codes: 0 it fits, or no limit was given; 1 it does not fit the limit, the
model's own code failed, or Keras's backend cannot be estimated; 2 bad usage,
such as a file that holds no model; 3 a bug in gpuconf; 4 a library is missing;
130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe this command, and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    about = "train.py, model.keras, model.h5, or module:function"
    parser.add_argument("target", metavar="TARGET", help=about)
    add_options(parser)
    parser.set_defaults(command=run)
    if isinstance(parser, CommandParser):
        parser.after_dashes = "arguments"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that say which step is estimated, under which limit, and how it is shown."""
    add = parser.add_argument
    add("--batch-size", type=positive, metavar="N",
        help="samples in one step (default: the script's, else 32)")  # fmt: skip
    add("--inference", action="store_true", help="a step of predict() instead of fit()")
    add("--optimizer", metavar="NAME", help="for example adam or sgd (default: the model's own)")
    add("--loss", metavar="NAME", help="for example mse (default: the model's own)")
    add("--mixed-precision", type=_precision, nargs="?", const="float16", metavar="TYPE",
        help="compute in float16 (the default here) or bfloat16")  # fmt: skip
    jit = parser.add_mutually_exclusive_group()
    jit.add_argument("--jit", action="store_true", default=None,
        help="count the step as XLA compiles it (default: as Keras decides where there is a "
        "GPU)")  # fmt: skip
    jit.add_argument("--no-jit", dest="jit", action="store_false", default=None,
        help="count it as it runs op by op")  # fmt: skip
    add("--card", type=card_size_argument, metavar="SIZE",
        help="memory of the GPU that XLA compiles for; XLA stays below it where it can (default: "
        "that of this machine's GPU, else 24GiB)")  # fmt: skip
    add("--input-shape", type=_shape, action="append", metavar="SHAPE",
        help="of one sample, such as 224,224,3, where the model leaves it open; once "
        "for each input")  # fmt: skip
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--limit", type=size_argument, metavar="SIZE",
        help="what may be used, such as 6GiB: find the largest batch that fits")  # fmt: skip
    limit.add_argument("--profile", metavar="PROFILE",
        help="the limit that this profile gives on this machine's GPU now")  # fmt: skip
    add("--no-growth", action="store_true",
        help="assume that the framework takes its whole limit at once (default: with "
        "allow_growth, or what the profile says)")  # fmt: skip
    add("--workspace-limit", type=size_argument, metavar="SIZE",
        help="the largest workspace of one convolution (default: the profile's "
        "cudnn_workspace_limit; else what CPU kernels take, and none under XLA)")  # fmt: skip
    add("--advice", action="store_true",
        help="show what each change would save (default: only where it does not fit)")  # fmt: skip
    add("--probe", action="store_true", help="calibrate with two small real steps")
    add("--plot", metavar="FILE",
        help="draw memory over a step and by layer, as FILE.png or FILE.svg")  # fmt: skip
    add("-v", "--verbose", action="store_true", help="show every layer")
    add("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace, output: Output) -> int:
    """Estimate, report, and exit with whether it fits."""
    from gpuconf.footprint.loading import backend_wanted
    from gpuconf.footprint.memory_limit import limit_and_budget

    output.as_json = options.json
    backend = backend_wanted()
    _check(options)
    if backend != "tensorflow":
        _check_not_only_tensorflows(options, backend)
    if options.plot is not None:
        check_picture(options.plot)
    limit_bytes, budget = limit_and_budget(options.limit, options.profile, backend=backend)
    budget = budget._replace(allow_growth=_wanted(options)["allow_growth"])
    environ = dict(os.environ)  # before it is changed for this process: what a probe starts with

    def answer(found: Training, own_prints: ExitStack) -> int:
        with own_prints:
            estimate = estimated(found, options, limit_bytes, output)
            if options.probe:
                estimate = _probed(estimate, found.subject, options, environ, output)
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
    """Print the report, and return whether it fits as an exit code."""
    from gpuconf.footprint import plot

    picture = drawn(plot.draw, estimate, options.plot)
    _show(estimate, budget, picture.path, options, output)
    output.flush()
    if picture.said is not None:
        output.note(picture.said)
    return max(picture.code, int(estimate.fits is False))


def _check(options: argparse.Namespace) -> None:
    """Raise for options that do not go together."""
    from gpuconf.footprint.scripts.running import is_script

    if options.arguments and not is_script(options.target):
        raise UsageError(
            f"what stands after -- is for a script, and {options.target} is none",
            hint="gpuconf estimate train.py -- --epochs 3",
        )
    if options.card == 0:
        raise UsageError("--card 0B: a GPU has memory", hint="--card 8GiB")
    for option, size, hint in (
        ("--limit", options.limit, "--limit 6GiB"),
        ("--workspace-limit", options.workspace_limit, "--workspace-limit 1B counts next to none"),
    ):
        if size == 0:
            raise UsageError(f"{option} 0B: a limit is at least a byte", hint=hint)
    if options.probe and is_script(options.target):
        raise UsageError(
            "--probe makes steps of a model that a function or a file gives, not of a script",
            hint=f"gpuconf rehearse --card 8GiB -- python {shlex.quote(options.target)}",
        )
    if options.inference:
        for name in ("optimizer", "loss"):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--{name} is for training, and --inference for what needs none",
                    hint="leave one of them out",
                )


def _check_not_only_tensorflows(options: argparse.Namespace, backend: str) -> None:
    """Raise for options that stand on TensorFlow's operations one by one."""
    if options.jit is False:
        raise UsageError(
            f"--no-jit is for KERAS_BACKEND=tensorflow, not {backend}: there only a compiled step "
            "can be estimated",
            hint="leave --no-jit out",
        )
    for name, why in _OF_TENSORFLOW.items():
        if getattr(options, name.replace("-", "_")):
            raise UsageError(
                f"--{name} is for KERAS_BACKEND=tensorflow, not {backend}: {why}",
                hint=f"leave --{name} out",
            )


def _found(
    options: argparse.Namespace, output: Output, answer: Callable[[Training], int]
) -> Training:
    """What is to be estimated.

    A script that trains gets its answer where it stands, and the process ends there: no line
    of the script's is run any more, no ``finally`` either.
    """
    from gpuconf.footprint.loading import import_tensorflow, load_model, stay_off_the_gpu
    from gpuconf.footprint.scripts.running import is_script, run_script

    target = options.target
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
    """A model by itself, of which nothing says how it is trained."""
    from gpuconf.footprint.scripts.training import Training

    return Training(model, _DEFAULT_BATCH, notes=notes)


def _end(action: Callable[[], int], output: Output) -> NoReturn:
    """Do the rest of the command, and end the process at once."""
    code = 3
    try:
        code = exit_code_of(action, output)
    finally:
        os._exit(code)


def _raise(error: GpuconfError) -> NoReturn:
    raise error


def _wanted(options: argparse.Namespace) -> dict[str, Any]:
    """The options of :func:`gpuconf.estimate` that say which step, and in which allocator."""
    from gpuconf.footprint.memory_limit import allocator_options

    shapes = options.input_shape
    return {
        "optimizer": options.optimizer,
        "loss": options.loss,
        "training": not options.inference,
        "jit": options.jit,
        "card": options.card,
        "mixed_precision": options.mixed_precision,
        "input_shape": shapes[0] if shapes is not None and len(shapes) == 1 else shapes,
        **allocator_options(
            options.profile, no_growth=options.no_growth, workspace_limit=options.workspace_limit
        ),
    }


def estimated(
    found: Training, options: argparse.Namespace, limit_bytes: int | None, output: Output
) -> MemoryEstimate:
    """The estimate; with advice too where it is asked for, or the batch does not fit."""
    from gpuconf.footprint.scripts.estimating import estimate_training

    batch = options.batch_size or found.batch_size
    return estimate_training(
        found,
        batch,
        **_wanted(options),
        limit=limit_bytes,
        phases=True,
        advise=True if options.advice else None,
        progress=output.progress_for_people,
    )


def _probed(
    estimate: MemoryEstimate,
    model: Any,
    options: argparse.Namespace,
    environ: Mapping[str, str],
    output: Output,
) -> MemoryEstimate:
    """The estimate calibrated by a probe.

    ``environ`` is the environment in which the command was started, with its GPUs.
    """
    from gpuconf.footprint.probe.measuring import probed
    from gpuconf.footprint.probe.order import Order

    wanted = _wanted(options)
    step = {name: value for name, value in wanted.items() if name in Order._fields}
    step["jit"] = estimate.setting is not None and estimate.setting.jit
    return probed(
        estimate,
        model,
        Order(target=options.target, folder=os.getcwd(), batch_sizes=(), **step),
        options=wanted,
        environ=environ,
        progress=output.progress_for_people,
        profile=options.profile,
    )


def _show(
    estimate: MemoryEstimate,
    budget: Budget,
    picture: str | None,
    options: argparse.Namespace,
    output: Output,
) -> None:
    if output.as_json:
        from gpuconf.footprint.document import document_of

        document = document_of(estimate, budget, target=options.target, plot=picture)
        output.document(document)
        return
    from gpuconf.footprint.text import report

    output.lines(report(estimate, budget=budget, width=output.width, verbose=options.verbose))


def _precision(text: str) -> str:
    if text not in _PRECISIONS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither float16 nor bfloat16 (put TARGET before it)"
        )
    return text


def _shape(text: str) -> tuple[int, ...]:
    parts = text.strip("()[] ").rstrip(",").replace("x", ",").split(",")
    sizes = [part.strip() for part in parts]
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is no shape, such as 224,224,3")
    return tuple(map(int, sizes))
