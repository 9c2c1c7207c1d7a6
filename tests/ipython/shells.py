"""Cells run in an IPython of their own, as a notebook would show them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.programs.processes import run_python

_PROGRAM = """
import json
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance(colors="nocolor")
if {is_terminal}:
    shell.display_formatter.active_types = ["text/plain"]
shell.run_line_magic("load_ext", "gpuconf")
found = []
for text in json.loads({cells!r}):
    with capture_output() as shown:
        result = shell.run_cell(text)
    pictures = [output.data for output in shown.outputs]
    error = type(result.error_in_exec).__name__ if result.error_in_exec else ""
    found.append([shown.stdout, shown.stderr, pictures, error])
print("FOUND", json.dumps(found))
"""


class Cell(NamedTuple):
    """What a cell showed, its displays by MIME type, and the exception that ended it."""

    out: str
    err: str
    displays: list[dict[str, str]]
    error: str

    @property
    def html(self) -> str:
        """The last display's."""
        return self.displays[-1]["text/html"]

    @property
    def text(self) -> str:
        """The last display's."""
        return self.displays[-1]["text/plain"]


def run_cells(
    folder: Path, *cells: str, environ: Mapping[str, str] | None = None, is_terminal: bool = False
) -> list[Cell]:
    """Run the cells below %load_ext gpuconf, all in one fresh process."""
    program = _PROGRAM.format(is_terminal=is_terminal, cells=json.dumps(cells))
    out = run_python(program, folder, environ=environ, timeout_s=300)
    found = json.loads(out.rpartition("FOUND ")[2])
    return [Cell(*each) for each in found]
