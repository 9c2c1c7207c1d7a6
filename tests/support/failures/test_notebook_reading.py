"""Of a notebook, what its cells printed is read, and not what stands in them."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from gpuconf.commands.explain import explain, explain_chunks
from gpuconf.support.failures.log.notebook import printed_by_cells

OOM = "OOM when allocating tensor with shape[10000,32,28,28] and type float on GPU:0 by GPU_0_bfc"
NOTEBOOK = Path(__file__).parents[2] / "commands/explain/simulated/logs/notebook.ipynb"


def notebook(*outputs: dict[str, Any], source: str = "model.fit(x, y)") -> bytes:
    """A notebook of one cell with these outputs, as Jupyter writes it."""
    cell = {"cell_type": "code", "source": [source], "outputs": list(outputs), "metadata": {}}
    words = {"cell_type": "markdown", "source": ["# Training"], "metadata": {}}
    whole = {"cells": [words, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1).encode()


STREAM = {"output_type": "stream", "name": "stderr", "text": ["Epoch 1/2\n", f"E: {OOM}\n"]}
ERROR = {"output_type": "error", "ename": "ResourceExhaustedError", "evalue": OOM,
         "traceback": [f"\x1b[0;31mResourceExhaustedError\x1b[0m: {OOM}\n\nhint",
                       "second"]}  # fmt: skip
RESULT = {"output_type": "execute_result", "data": {"text/plain": [f"'{OOM}'"], "text/html": "<b>"}}


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (STREAM, ["Epoch 1/2", f"E: {OOM}"]),
        ({**STREAM, "text": f"one\n{OOM}\n"}, ["one", OOM]),
        (ERROR, [f"\x1b[0;31mResourceExhaustedError\x1b[0m: {OOM}", "", "hint", "second"]),
        ({**ERROR, "traceback": []}, [f"ResourceExhaustedError: {OOM}"]),
        (RESULT, [f"'{OOM}'"]),
        ({"output_type": "display_data", "data": {"image/png": OOM}}, []),
        ({"output_type": "stream"}, []),
    ],
)
def test_outputs_are_read(output: dict[str, Any], lines: list[str]) -> None:
    """Streams, errors with their tracebacks, and results as text; pictures and HTML are not."""
    printed = printed_by_cells(notebook(output))
    assert printed is not None
    assert printed.decode() == "\n".join(lines) + "\n"


@pytest.mark.parametrize("output", [STREAM, ERROR, RESULT], ids=["stream", "error", "result"])
def test_output_is_explained(output: dict[str, Any]) -> None:
    """An error in an output is found, with its tensor."""
    diagnosis = explain(notebook(output))
    assert diagnosis.cause == "oom-device-tensor"
    assert diagnosis.facts.request.tensor is not None
    assert diagnosis.facts.request.tensor.shape == (10000, 32, 28, 28)


def test_source_is_not_read() -> None:
    """A cell that quotes an error, and a page of words about it, did not fail."""
    source = f"# why do I get: ResourceExhaustedError: {OOM}\nraise MemoryError"
    diagnosis = explain(notebook({**STREAM, "text": "Epoch 1/2\n"}, source=source))
    assert (diagnosis.cause, diagnosis.severity) == ("not-a-gpu-problem", "not-gpu")


def test_notebook_without_outputs_is_empty() -> None:
    """Outputs that were cleared leave nothing to explain, even if the source quotes an error."""
    assert printed_by_cells(notebook(source=OOM)) == b"\n"
    assert explain(notebook(source=OOM)).cause == "not-a-gpu-problem"


@pytest.mark.parametrize(
    "data",
    [
        b'{"cells": [',
        b'{"cells": {"outputs": 3}}',
        b'["cells"]',
        b'{"cells": 3}',
        b"Epoch 1/2",
        b"",
        b'{"cells":' + b"[" * 100_000,
    ],
)
def test_what_is_no_notebook_is_a_log(data: bytes) -> None:
    """Broken or other JSON is not a notebook; nothing is raised."""
    assert printed_by_cells(data) is None
    explain(data)


def test_odd_cells_are_passed_over() -> None:
    """What is not as Jupyter writes it hides nothing of what is."""
    cells: list[object] = [None, 3, [], {}, {"outputs": None}, {"outputs": [None, 3, {}]}]
    outputs = [{"text": 3}, {"data": []}, {"traceback": [3]}, {"ename": None}]
    for cell, output in product(cells, outputs):
        data = json.dumps({"cells": [cell, {"outputs": [output, STREAM]}]}).encode()
        assert OOM.encode() in (printed_by_cells(data) or b""), (cell, output)


@pytest.mark.parametrize("indent", [None, 1], ids=["in one line", "pretty"])
def test_notebook_that_breaks_off_is_read_as_text(indent: int | None) -> None:
    """A notebook that was cut off by a full disk still tells its error, colored as it is."""
    whole = json.dumps(json.loads(notebook(STREAM, ERROR)), indent=indent).encode()
    cut = whole[: -len(whole) // 20]
    assert printed_by_cells(cut) is None
    assert explain(cut).cause == "oom-device-tensor"


def test_large_notebook_is_read_as_text() -> None:
    """Above the limit a notebook is read line by line, as a log of any size is."""
    data = notebook({"output_type": "stream", "text": ["Epoch 1/2\n"] * 999}, ERROR)
    assert printed_by_cells(data, largest=len(data)) is not None
    assert printed_by_cells(data, largest=len(data) - 1) is None
    assert explain_chunks([data]).cause == "oom-device-tensor"


def test_colors_of_a_broken_notebook_hide_nothing() -> None:
    """Terminal codes that JSON has as ``\\u001b`` are taken out of words, too."""
    colored = (
        "\x1b[0;31mOOM when\x1b[0m \x1b[1mallocating\x1b[0m tensor with shape[8,8] and type float"
    )
    data = notebook({**ERROR, "evalue": "", "ename": "E", "traceback": [colored]})[:-9]
    assert printed_by_cells(data) is None
    assert explain(data).cause == "oom-device-tensor"


def test_lines_are_those_of_what_was_printed() -> None:
    """Line numbers count what the cells printed, one cell after the other."""
    diagnosis = explain(notebook({**STREAM, "text": "one\ntwo\n"}, STREAM))
    assert [each.line for each in diagnosis.evidence] == [4]


def test_notebook_of_a_real_kernel() -> None:
    """The notebook that a real kernel wrote on a simulated GPU."""
    diagnosis = explain(NOTEBOOK.read_bytes())
    assert diagnosis.severity == "failure"
    assert diagnosis.is_about_memory
