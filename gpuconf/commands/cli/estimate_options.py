"""The options of ``gpuconf estimate``: the step, the limit, and the output format."""

from __future__ import annotations

import argparse
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.support.command_line import card_size_argument, positive, size_argument

_OF_TENSORFLOW = {
    "here": "only TensorFlow can run a step",
    "plot": "a compiled step is a single block of memory, without a timeline to plot",
    "workspace-limit": "only TensorFlow has this limit",
}
_PRECISIONS = ("float16", "bfloat16")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the step, the limit and the output format."""
    add = parser.add_argument
    add("--batch-size", type=positive, metavar="N",
        help="samples per step (default: from the script, else 32)")  # fmt: skip
    add("--inference", action="store_true", help="estimate predict() instead of fit()")
    add("--optimizer", metavar="NAME", help="for example adam or sgd (default: the model's own)")
    add("--loss", metavar="NAME", help="for example mse (default: the model's own)")
    add("--mixed-precision", type=_precision, nargs="?", const="float16", metavar="TYPE",
        help="compute in TYPE: float16 (default) or bfloat16")  # fmt: skip
    jit = parser.add_mutually_exclusive_group()
    jit.add_argument("--jit", action="store_true", default=None,
        help="estimate the step compiled by XLA (default: as Keras decides on a GPU)")  # fmt: skip
    jit.add_argument("--no-jit", dest="jit", action="store_false", default=None,
        help="estimate the step without XLA")  # fmt: skip
    add("--card", type=card_size_argument, metavar="SIZE",
        help="assume an otherwise unused GPU with this much memory: sets the limit, unless --limit "
        "does, and the GPU that XLA compiles for (default: this machine's GPU; without one, XLA "
        "assumes 24GiB)")  # fmt: skip
    add("--input-shape", type=_shape, action="append", metavar="SHAPE",
        help="shape of one sample, such as 224,224,3, if the model leaves it open; repeat for each "
        "input")  # fmt: skip
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--limit", type=size_argument, metavar="SIZE",
        help="the memory limit, such as 6GiB: also find the largest batch that fits")  # fmt: skip
    limit.add_argument("--profile", metavar="PROFILE",
        help="the limit that this profile sets on this machine's GPU now")  # fmt: skip
    add("--no-growth", action="store_true",
        help="assume that the framework reserves its entire limit immediately (default: "
        "allow_growth, or the profile's setting)")  # fmt: skip
    add("--workspace-limit", type=size_argument, metavar="SIZE",
        help="count this much cuDNN workspace for each convolution (default: the profile's "
        "cudnn_workspace_limit, else none)")  # fmt: skip
    add("--here", action="store_true",
        help="run the step with its kernels on this machine's GPU: the numbers then include cuDNN "
        "and cuBLAS workspaces")  # fmt: skip
    add("--advice", action="store_true",
        help="suggest changes that save memory (default: if the batch does not fit)")  # fmt: skip
    add("--plot", metavar="FILE",
        help="plot memory over a step and by layer, as FILE.png or FILE.svg")  # fmt: skip
    add("-v", "--verbose", action="store_true", help="show every layer")
    add("--json", action="store_true", help="print one JSON document")


def check_options(options: argparse.Namespace) -> None:
    """Raise UsageError for options that cannot be combined."""
    if options.here and options.card is not None:
        raise UsageError(
            "--card assumes a GPU, but --here measures on this machine's GPU",
            hint="leave one of them out",
        )
    if options.here and options.workspace_limit is not None:
        raise UsageError(
            "--workspace-limit assumes a workspace, but --here measures the real one",
            hint="leave one of them out",
        )
    if options.card == 0:
        raise UsageError("--card 0B: a GPU must have memory", hint="--card 8GiB")
    for option, size, hint in (
        ("--limit", options.limit, "--limit 6GiB"),
        ("--workspace-limit", options.workspace_limit, "--workspace-limit 1B counts almost none"),
    ):
        if size == 0:
            raise UsageError(f"{option} 0B: a limit must be at least 1B", hint=hint)
    if options.inference:
        for name in ("optimizer", "loss"):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--{name} applies only to training, but --inference does not train",
                    hint="leave one of them out",
                )


def check_arguments(options: argparse.Namespace) -> None:
    """Raise UsageError for arguments after ``--`` if the target is not a script."""
    from gpuconf.commands.estimate.scripts.running import is_script

    if options.arguments and not is_script(options.target):
        raise UsageError(
            f"arguments after -- need a script, but {options.target} is not one",
            hint="gpuconf estimate train.py -- --epochs 3",
        )


def check_for_backend(options: argparse.Namespace, backend: str) -> None:
    """Raise UsageError for options that need TensorFlow's individual operations."""
    if options.jit is False:
        raise UsageError(
            f"--no-jit requires KERAS_BACKEND=tensorflow, not {backend}: only a compiled step can "
            "be estimated there",
            hint="leave --no-jit out",
        )
    for name, why in _OF_TENSORFLOW.items():
        if getattr(options, name.replace("-", "_")):
            raise UsageError(
                f"--{name} requires KERAS_BACKEND=tensorflow, not {backend}: {why}",
                hint=f"leave --{name} out",
            )


def step_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of :func:`gpuconf.estimate` for the step and the allocator."""
    from gpuconf.commands.estimate.memory_limit import allocator_options

    shapes = options.input_shape
    return {
        "optimizer": options.optimizer,
        "loss": options.loss,
        "training": not options.inference,
        "jit": options.jit,
        "card": options.card,
        "here": options.here,
        "mixed_precision": options.mixed_precision,
        "input_shape": shapes[0] if shapes is not None and len(shapes) == 1 else shapes,
        **allocator_options(
            options.profile, no_growth=options.no_growth, workspace_limit=options.workspace_limit
        ),
    }


def _precision(text: str) -> str:
    if text not in _PRECISIONS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither float16 nor bfloat16 (put TARGET first)"
        )
    return text


def _shape(text: str) -> tuple[int, ...]:
    parts = text.strip("()[] ").rstrip(",").replace("x", ",").split(",")
    sizes = [part.strip() for part in parts]
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shape such as 224,224,3")
    return tuple(map(int, sizes))
