"""The ``gpuconf`` command: its parser, and the one place where errors become exit codes.

Exit codes: 0 success (warnings included), 1 a check failed or a GpuconfError, 2 bad usage or a bad
profile, 3 a bug in gpuconf, 4 a required library, compiler or framework is not installed, 130
interrupted.  rehearse adds its own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gpuconf import __version__
from gpuconf.commands.cli.output import Output, drop_unwritten
from gpuconf.errors import GpuconfError
from gpuconf.support.command_line import COMMANDS, WORK_ON_WINDOWS, CommandParser, describe

_DESCRIPTION = "Keep deep-learning jobs within a GPU memory limit."
_EPILOG = """\
In a script, the first line `import gpuconf.auto` applies a profile: that of
$GPUCONF_PROFILE, else the project's gpuconf.yaml, else your own, else
shared-desktop. `gpuconf plan` shows what it does here.

exit codes:
  0  success
  1  refused, or a problem was found
  2  bad usage, or a bad profile
  3  a bug in gpuconf
  4  a required package is not installed
`gpuconf run`, `shell` and `rehearse` also use others: see their --help."""


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    # Read before the arguments are parsed, so that bad arguments are reported as JSON too.
    # Arguments after `--` belong to another program.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    output = Output(as_json=_wants_json(arguments[:end]))
    return exit_code_of(lambda: _run(arguments, output), output)


def _wants_json(arguments: Sequence[str]) -> bool:
    words = " ".join(arguments)
    return "--json" in arguments or "--format=json" in arguments or "--format json" in words


def _run(arguments: Sequence[str], output: Output) -> int:
    if "_ARGCOMPLETE" in os.environ:  # the shell requests completions
        line = os.environ.get("COMP_LINE", "").split()
        importlib.import_module("gpuconf.commands.cli.completion").complete(
            build_parser(at_once=line)
        )
    arguments = _as_options(arguments)
    if not arguments:
        build_parser().print_help(sys.stderr)
        return 2
    options = build_parser().parse_args(arguments)
    output.use_color(options.color)
    return int(options.command(options, output))


def exit_code_of(action: Callable[[], int], output: Output) -> int:
    """Run a command or the rest of one, report errors, and return its exit code."""
    code = 0
    try:
        code = _code_of(action, output)
        output.flush()
    except BrokenPipeError:  # the reader (`| head`) has closed the pipe
        drop_unwritten()
    except OSError as error:  # a full disk
        drop_unwritten()
        output.note(f"gpuconf: error: the output cannot be written: {error.strerror}")
        return code or 1
    return code


def _code_of(action: Callable[[], int], output: Output) -> int:
    try:
        return action()
    except SystemExit as stop:  # argparse, after --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except GpuconfError as error:
        with _read_or_not():
            output.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # a bug becomes exit code 3
        if isinstance(error, OSError) and error.filename is None:
            raise  # an error of a stream, not of a file
        with _read_or_not():
            output.bug(error)
        return 3


def _as_options(arguments: Sequence[str]) -> Sequence[str]:
    """Turn ``help``, ``help COMMAND`` and ``version``, common in other tools, into our options."""
    match list(arguments):
        case ["help", *words]:
            return [*words, "--help"]
        case ["version"]:
            return ["--version"]
    return arguments


@contextmanager
def _read_or_not() -> Iterator[None]:
    """Keep the error's exit code even if the reader of stderr has closed it."""
    try:
        yield
    except BrokenPipeError:
        drop_unwritten()


class _Parser(CommandParser):
    """A parser that accepts --color before or after the command.

    The parser of a command imports the command's ``module`` when it parses.
    """

    module: str | None = None
    takes_all_words = False  # for another program: all are passed on as ``words``

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        about = "color the output (default: auto, which follows NO_COLOR and FORCE_COLOR)"
        is_top = " " not in self.prog
        self.add_argument(
            "--color",
            choices=("auto", "always", "never"),
            default=argparse.SUPPRESS,
            help=about if is_top else argparse.SUPPRESS,
        )

    def add_its_arguments(self) -> None:
        """Import the command's module, once, and let it add its arguments."""
        module, self.module = self.module, None
        if module is not None:
            if sys.platform == "win32" and module.rpartition(".")[2] not in WORK_ON_WINDOWS:
                hint = "run it in WSL2, which `wsl --install` sets up"
                raise GpuconfError(f"`{self.prog}` does not work on Windows", hint=hint)
            importlib.import_module(module).add_arguments(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.add_its_arguments()
        if self.takes_all_words:
            words = list(sys.argv[1:] if args is None else args)
            return argparse.Namespace(**self._defaults, words=words), []
        return super().parse_known_args(args, namespace)


def build_parser(at_once: Sequence[str] = (), prog: str = "gpuconf") -> argparse.ArgumentParser:
    """Build the parser; a command's module adds its arguments when the command is parsed.

    The commands in ``at_once`` add theirs immediately.  ``prog`` is the name in usage and errors.
    """
    parser = _Parser(prog=prog)
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.set_defaults(color="auto")
    version = f"gpuconf {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about)
        command.module = f"gpuconf.commands.cli.{name}"
        if name in at_once:
            command.add_its_arguments()
    return parser
