"""The notebooks of docs/: each is run again on a simulated GPU, and its figures are still right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.documents.page_tools import docs_module
from tests.support.reporting.outline import check_harmless

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("libraries", "tensorflow_python")]

# Sizes, shapes of tensors, and the batch that fits.
_FIGURE = re.compile(
    r"\d[\d.]* (?:GiB|MiB|KiB)\b|\[\d+(?:, \d+)+\]|largest batch that [\w ]+ is \d+"
)


RUNNER = docs_module("run_notebooks")
NOTEBOOKS = RUNNER.notebooks()


def shown(cell: Any) -> str:
    """All that a cell shows as text; ours of what went to stderr, and an error's own words."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "error":
            texts.append(f"{output.ename}: {output.evalue}")
        elif output.output_type == "stream" and output.name == "stdout":
            texts.append(output.text)
        elif "text/plain" in output.get("data", {}):
            texts.append(output.data["text/plain"])
    return "\n".join(texts)


def figures(cell: Any) -> list[str]:
    """Sizes, shapes and batches of a cell, in order; none where they are the machine's."""
    varies = "varies" in cell.metadata.get("tags", [])
    return [] if varies else _FIGURE.findall(shown(cell))


def errors(cell: Any) -> list[tuple[str, str]]:
    """The names of a cell's exceptions, and what gpuconf's own say."""
    found = [output for output in cell.outputs if output.output_type == "error"]
    return [(each.ename, each.evalue if "hint:" in each.evalue else "") for each in found]


def code_cells(path: Path) -> list[Any]:
    """The cells that are run."""
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_four() -> None:
    """A notebook that is not found would not be run."""
    assert len(NOTEBOOKS) == 4


@pytest.mark.nightly  # what they show, other tests prove in the gate
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_shows_is_what_it_does(path: Path, tmp_path: Path) -> None:
    """Run again: no cell fails that may not; sizes, batches and errors are as the saved ones."""
    fresh = tmp_path / path.name
    RUNNER.run_on_card(path, fresh)
    pairs = list(zip(code_cells(path), code_cells(fresh), strict=True))
    for saved, made in pairs:
        assert figures(made) == figures(saved), saved.source
        assert errors(made) == errors(saved), saved.source
    assert sum(len(figures(saved)) for saved, _ in pairs) >= 3
    # In parts or whole, an evaluation comes to the same.
    losses = [line for _, made in pairs for line in shown(made).splitlines() if "loss " in line]
    assert len(set(losses)) <= 1


def test_too_late_says_what_to_do() -> None:
    """The notebook about a limit ends with it: restart the kernel, then the very same magic."""
    (path,) = (path for path in NOTEBOOKS if "limit" in path.stem)
    ((name, said),) = (error for cell in code_cells(path) for error in errors(cell))
    assert name == "TooLateError"
    assert "restart the kernel" in said
    assert "`%gpuconf profile half-card`" in said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_can_be_read_by_anybody(path: Path) -> None:
    """It says what it ran on, is small, and has no plot, folder or traceback of ours in it."""
    text = path.read_text(encoding="utf-8")
    assert len(text) < 100_000
    notebook = nbformat.read(path, as_version=4)
    assert "simulated GPU" in notebook.cells[0].source
    assert not re.search(r"/(?:home|root|work|tmp)/", text.replace("/tmp/ipykernel", ""))
    for cell in code_cells(path):
        assert cell.outputs or "load_ext" not in cell.source
        assert "gpuconf/" not in shown(cell)
        for output in cell.outputs:
            if "text/html" in output.get("data", {}):
                check_harmless(output.data["text/html"])
