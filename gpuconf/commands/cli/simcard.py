"""``gpuconf simcard``: ``python -m gpuconf.simcard`` as a gpuconf command."""

from __future__ import annotations

import argparse
from typing import Any

from gpuconf.commands.cli.output import Output


def add_arguments(parser: Any) -> None:
    """Leave all arguments, including --help, to the simulated GPU's own parser."""
    parser.takes_all_words = True
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Run the simulated GPU's command line and return its exit code."""
    from gpuconf.simcard.__main__ import main

    output.flush()
    return main(options.words)
