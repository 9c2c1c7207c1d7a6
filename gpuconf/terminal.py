"""What gpuconf says to people: one plain line on stderr, and whether a stream wants colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO


def say(text: str) -> None:
    """Write ``gpuconf: text`` to stderr; never raise (stderr may be closed or missing)."""
    if sys.stderr is None:  # which print() would take for stdout
        return
    try:
        print(f"gpuconf: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return


def debug(text: str, *, environ: Mapping[str, str] = os.environ) -> None:
    """Say ``text`` where ``GPUCONF_LOG=debug`` asks for it."""
    if environ.get("GPUCONF_LOG", "").lower() == "debug":
        say(text)


def wants_colour(
    stream: TextIO | None, *, choice: str = "auto", environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether to colour ``stream``: ``--color`` > NO_COLOR > FORCE_COLOR > is it a terminal.

    ``choice`` is ``always``, ``never`` or ``auto``.  An empty NO_COLOR or FORCE_COLOR does not
    count, as no-color.org and force-color.org say.  A stream that is closed, or None because
    the process was started without it, is no terminal.
    """
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    try:
        is_terminal = stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
    return is_terminal and environ.get("TERM") != "dumb"
