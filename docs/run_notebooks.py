"""Runs the notebooks of docs/notebooks on a simulated GPU and writes their outputs into them.

`make notebooks` runs all; `python docs/run_notebooks.py NAME …` those named.  Each has its own
kernel, and a GPU as its metadata says: {"gpuconf": {"total": "8GiB", "used": "1500MiB"}}.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "notebooks"
_CELL_S = 900  # on a busy machine; a cell takes seconds
_LONGEST_TRACEBACK = 28  # lines
# TensorFlow's own log, with times and addresses, would hide what a notebook shows.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "GPUCONF_NVML_TIMEOUT": "30"}


def notebooks() -> list[Path]:
    """All of them."""
    return sorted(FOLDER.glob("*.ipynb"))


def run_on_card(path: Path, target: Path) -> None:
    """Run a notebook on its GPU, in a separate folder, and write it with outputs to ``target``.

    Raises CalledProcessError where a cell fails that may not.
    """
    card = nbformat.read(path, as_version=4).metadata["gpuconf"]
    sizes = [word for name, size in card.items() for word in (f"--{name}", size)]
    command = [sys.executable, str(Path(__file__)), "--here", str(path), str(target)]
    environ = {name: value for name, value in os.environ.items() if name != "GPUCONF_PROFILE"}
    with tempfile.TemporaryDirectory() as folder:
        simcard = [sys.executable, "-m", "gpuconf.simcard", "run", *sizes, "--", *command]
        subprocess.run(simcard, env={**environ, **_QUIET}, cwd=folder, check=True)


def _run_here(path: Path, target: Path) -> None:
    """Run a notebook in this process's environment and folder."""
    warnings.filterwarnings("ignore", module="nbformat")
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": os.getcwd()}}
    NotebookClient(notebook, timeout=_CELL_S, resources=resources).execute()
    for cell in _code_cells(notebook):
        cell.outputs = [_shortened(_of_no_machine(output)) for output in cell.outputs]
        cell.metadata.pop("execution", None)  # times
    nbformat.write(notebook, target)


def _code_cells(notebook: Any) -> Iterator[Any]:
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def _shortened(output: Any) -> Any:
    """An output; of a long traceback the beginning and the end."""
    if output.output_type == "error":
        lines = "\n".join(output.traceback).splitlines()
        if len(lines) > _LONGEST_TRACEBACK:
            half = _LONGEST_TRACEBACK // 2
            output.traceback = [*lines[:half], "…", *lines[-half:]]
    return output


def _of_no_machine(value: Any) -> Any:
    """An output without this machine's folders."""
    if isinstance(value, str):
        for folder in (str(ROOT), os.getcwd(), sys.base_prefix):
            value = value.replace(folder, "…")
        return value
    if isinstance(value, list):
        return [_of_no_machine(each) for each in value]
    if isinstance(value, dict):
        return nbformat.from_dict({name: _of_no_machine(each) for name, each in value.items()})
    return value


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="such as what-takes-the-memory; all by default")
    parser.add_argument("--here", nargs=2, metavar=("NOTEBOOK", "TARGET"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        _run_here(*map(Path, options.here))
        return
    for path in notebooks():
        if not options.names or path.stem in options.names:
            print(path.relative_to(ROOT), flush=True)
            run_on_card(path, path)


if __name__ == "__main__":
    main()
