"""``gpuconf shell``: the user's shell under a plan, which applies to everything started in it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from gpuconf.basics.terminal import say
from gpuconf.commands.cli.output import Output
from gpuconf.commands.run.launch import current_run, launch
from gpuconf.commands.run.request import add_arguments as add_request_arguments
from gpuconf.commands.run.request import request_of
from gpuconf.commands.run.shell import (
    NAME_VARIABLE,
    choose_shell,
    parent_program,
    variables_for,
    warning_for,
    words_of,
)
from gpuconf.errors import UsageError
from gpuconf.injected import SITE
from gpuconf.support.command_line import describe

_DESCRIPTION = """\
Start your own shell with the memory limit of a profile, which applies to all
that you start in it, as under `gpuconf run`. The reservation ends when you
leave the shell with `exit` or Ctrl-D. The prompt shows the profile."""

_EXAMPLES = """\
examples:
  gpuconf shell
  gpuconf shell --profile half-card
  gpuconf shell --set memory.memory_limit=4GiB --wait --processes 2
  gpuconf shell --shell /usr/bin/fish

environment: GPUCONF_DISABLE_PROMPT=1 keeps the prompt unchanged. In the shell,
GPUCONF_SHELL has the profile's name.

exit codes: the shell's own. If it was not started:
  1         too little GPU memory
  2         bad usage, or a bad profile
  126, 127  the shell cannot be started, or was not found"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    add_request_arguments(parser)
    parser.add_argument("--shell", metavar="PATH",
                        help="the shell (default: $SHELL, else the one you are in)")  # fmt: skip
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, _output: Output) -> int:
    """Replace this process with the shell; returns only by raising."""
    if not sys.stdin.isatty():
        raise UsageError(
            "gpuconf shell needs a terminal, but its input is not a terminal",
            hint="gpuconf run -- bash script.sh, or: gpuconf run -- bash < script.sh",
        )
    if os.environ.get(NAME_VARIABLE) and current_run() is not None:
        raise UsageError(
            f"this is already a gpuconf shell ({os.environ[NAME_VARIABLE]})",
            hint="run commands in it as usual; type exit to leave",
        )
    request = request_of(options)
    shell = choose_shell(options.shell, os.environ, parent_program())
    warning = warning_for(shell)
    if warning is not None:
        say(warning)

    def more_environ(environ: Mapping[str, str]) -> dict[str, str]:
        return variables_for(shell, SITE, environ)

    launch(request, words_of(shell), more_environ=more_environ)
