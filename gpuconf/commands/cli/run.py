"""``gpuconf run``: run any command under a plan, unmodified."""

from __future__ import annotations

import argparse

from gpuconf.commands.cli.output import Output
from gpuconf.commands.run.launch import launch
from gpuconf.commands.run.request import add_arguments as add_request_arguments
from gpuconf.commands.run.request import request_of
from gpuconf.support.command_line import command_after_dashes, describe

_OPTIONS = ("--profile", "--set", "--wait", "--processes")

_EXAMPLE = "gpuconf run --profile half-card -- python train.py"
_DESCRIPTION = """\
Run a command, unmodified, with the memory limit of a profile. gpuconf plans and
reserves the memory; then this process becomes the command: same process ID,
exit code, signals and terminal. The limit applies to every Python (2.7 or
newer) that the command starts and that imports TensorFlow (1.4 or newer), JAX
or PyTorch. gpuconf need not be installed there."""

_EXAMPLES = """\
examples:
  gpuconf run -- python train.py --epochs 30
  gpuconf run --profile half-card -- bash run_all.sh
  gpuconf run --set memory.memory_limit=4GiB --wait 10min -- python -m pkg.train
  gpuconf run --processes 2 -- torchrun --nproc-per-node 2 train.py

exit codes: the command's own. If it was not started:
  1         too little GPU memory
  2         bad usage, or a bad profile
  126, 127  the command cannot be started, or was not found"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    add_request_arguments(parser)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND",
                        help="what to run, as you would start it")  # fmt: skip
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Replace this process with the command; returns only by raising."""
    output.as_json = False  # a --json among the command's arguments is the command's
    launch(request_of(options), command_after_dashes(options.words, _OPTIONS, _EXAMPLE))
