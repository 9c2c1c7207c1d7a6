"""The ``gpuconf`` command: its parser, and the one place where errors become exit codes.

Exit codes: 0 fine (warnings too), 1 a check failed or a GpuconfError, 2 usage or a bad profile,
3 a bug in gpuconf, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from gpuconf import __version__
from gpuconf.cli import demo, init, plan, profiles
from gpuconf.cli.output import Output
from gpuconf.errors import GpuconfError

_COMMANDS = (plan, profiles, init, demo)


def run() -> None:
    """The console script: run the command line's command and exit with its code."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; argparse itself exits 2 on bad usage."""
    options = build_parser().parse_args(arguments)
    output = Output(as_json=getattr(options, "json", False), color=options.color)
    try:
        code = int(options.command(options, output))
        sys.stdout.flush()
        return code
    except GpuconfError as error:
        output.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has gone; what is still in the buffer must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  # the boundary: a bug becomes exit code 3
        output.bug(error)
        return 3


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; every command module adds its own part."""
    parser = argparse.ArgumentParser(
        prog="gpuconf",
        description="Keep deep-learning jobs within the GPU memory they may have.",
        epilog="In a script, the first line `import gpuconf.auto` applies $GPUCONF_PROFILE.",
    )
    parser.add_argument("--version", action="version", version=f"gpuconf {__version__}")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the output (default: auto; NO_COLOR and FORCE_COLOR are heeded)",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add_parser(commands)
    return parser
