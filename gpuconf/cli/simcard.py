"""``gpuconf simcard``: what ``python -m gpuconf.simcard`` is, as one of the commands."""

from __future__ import annotations

import argparse
from typing import Any

from gpuconf.cli.output import Output


def add_arguments(parser: Any) -> None:
    """Leave all words to the simulated card's own command line, --help included."""
    parser.takes_all_words = True
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Run it, and return its exit code."""
    from gpuconf.simcard.__main__ import main

    output.flush()
    return main(options.words)
