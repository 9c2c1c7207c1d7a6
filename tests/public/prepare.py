"""A folder outside the tree: a script as it is run here, and the files that it reads."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

from tests.public import edits
from tests.public.listing import HERE, Script
from tests.public.synthetic_files import write_file


def prepare(
    script: Script, sources: pathlib.Path, folder: pathlib.Path, *, as_notebook: bool
) -> pathlib.Path:
    """Write the edited script, what it imports and what it reads; return the script's path."""
    for path in script.beside:
        beside = sources / script.folder / path
        (folder / beside.name).write_text(edits.edit(beside.read_text(), script))
    for name, facts in script.files.items():
        write_file(folder / name, facts)
    source = sources / script.folder / script.path
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".py":
        return written(folder / source.name, edits.add_header(edits.edit(text, script)))
    notebook = json.loads(text)
    change_cells(notebook, script)
    if as_notebook:
        return written(folder / source.name, json.dumps(notebook))
    code = (code_of(cell) for cell in notebook["cells"])
    return written(folder / f"{source.stem}.py", "\n".join(code))


def written(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text, encoding="utf-8")
    return path


def code_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"]) + "\n" if cell["cell_type"] == "code" else ""


def change_cells(notebook: dict[str, Any], script: Script) -> None:
    """Edit each cell of code; the header goes into the first that imports a framework.

    Old notebooks name a kernel of Python 2.
    """
    notebook["metadata"]["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    has_header = False
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        text = edits.edit(code_of(cell), script)
        if not has_header:
            before, text = text, edits.add_header(text)
            has_header = text != before
        cell.update(source=text, outputs=[], execution_count=None)


def environment(script: Script, folder: pathlib.Path) -> dict[str, str]:
    """The variables of a run: the stand-ins before all else, how many examples, no window."""
    counts = {"STAND_IN_EXAMPLES": str(script.examples)}
    if script.test_examples is not None:
        counts["STAND_IN_TEST_EXAMPLES"] = str(script.test_examples)
    return {
        **os.environ,
        **counts,
        "PYTHONPATH": os.pathsep.join([str(HERE / "stand_ins"), str(folder)]),
        "STAND_IN_FOLDER": str(folder),
        "MPLBACKEND": "Agg",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
