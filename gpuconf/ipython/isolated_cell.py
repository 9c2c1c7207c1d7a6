"""``%%gpuconf isolated -o NAMES``: a cell in its own process, which gives its memory back."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

from gpuconf.basics.terminal import show_no_traceback
from gpuconf.commands.run.request import add_set, changes_of
from gpuconf.errors import GpuconfError, OriginalTraceback, UsageError
from gpuconf.isolation import isolated
from gpuconf.isolation.notebook import names_read, run_cell
from gpuconf.support.command_line import CommandParser

# IPython's own, which the process has too or cannot have.
_OF_IPYTHON = {"In", "Out", "get_ipython", "exit", "quit", "open"}


def parser() -> argparse.ArgumentParser:
    """The arguments of the cell's first line."""
    made = CommandParser(
        prog="%%gpuconf isolated",
        description="Run this cell in its own process, which frees all its GPU memory at the end. "
        "The variables that it reads are copied there.",
    )
    about = "variables to copy back, separated by commas: -o history,weights"
    made.add_argument("-o", "--output", metavar="NAMES", default="", help=about)
    made.add_argument("--profile", metavar="NAME", help="default: the profile of this notebook")
    add_set(made)
    about = "end the cell after this time"
    made.add_argument("--timeout", metavar="SECONDS", type=float, help=about)
    return made


def prepare(words: list[str], cell: str, shell: Any) -> Callable[[], None]:
    """Return a function that runs the cell and sets its outputs in the notebook.

    Raises UsageError for bad arguments, and SystemExit after ``--help``.
    """
    options = parser().parse_args(words)
    outputs = [name.strip() for name in options.output.split(",") if name.strip()]
    for name in outputs:
        is_reserved = iskeyword(name) or name.startswith("__") or name in _OF_IPYTHON
        if is_reserved or not name.isidentifier():
            raise UsageError(
                f"-o: expected variable names; got {name!r}", hint="-o history,weights"
            )
    changes = changes_of(options.changes)
    call = isolated(run_cell, profile=options.profile, timeout_s=options.timeout, **changes)

    def run() -> None:
        source = "\n" + shell.transform_cell(cell)  # so that lines are numbered as in the notebook
        file = shell.compile.cache(source, shell.execution_count)
        names = (names_read(source) - _OF_IPYTHON) & set(shell.user_ns)
        inputs = {name: shell.user_ns[name] for name in names}
        try:
            shell.user_ns.update(call(source, file, outputs, **inputs))
        except BaseException as error:
            _show_original_traceback(error)
            raise

    return run


def _show_original_traceback(error: BaseException) -> None:
    """Let IPython show where the cell failed, and not the frames between it and the notebook."""
    if isinstance(error.__cause__, OriginalTraceback):
        text = str(error.__cause__)
        error._render_traceback_ = lambda *_: [text]  # type: ignore[attr-defined]
    elif isinstance(error, GpuconfError):
        show_no_traceback(error)
