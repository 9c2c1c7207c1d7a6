"""Notebooks: which kernel runs them, what each cell does, and a verdict by cell."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import venv
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.rehearse.cells import cells_of
from gpuconf.commands.rehearse.document import document_of
from gpuconf.commands.rehearse.notebooks import Notebook, notebook_in
from gpuconf.commands.rehearse.rehearse import rehearse
from gpuconf.commands.rehearse.runs import Orders, RunResult
from gpuconf.commands.rehearse.verdict import verdict_of
from gpuconf.errors import MissingDependencyError, UsageError
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card
from tests.programs.processes import clean_environment

MAY_FAIL = "raises-exception"


def _notebook(
    folder: Path, *cells: str, kernel: str | None = None, tags: Mapping[int, str] | None = None
) -> Path:
    """A notebook with these code cells, counted from 1, and a cell of text before them."""
    code = [
        {
            "cell_type": "code",
            "source": source.splitlines(keepends=True),
            "metadata": {"tags": [tags[number]] if tags and number in tags else []},
            "outputs": [],
            "execution_count": None,
        }
        for number, source in enumerate(cells, 1)
    ]
    text = {"cell_type": "markdown", "source": ["# Title"], "metadata": {}}
    metadata = {"kernelspec": {"name": kernel, "display_name": "x"}} if kernel else {}
    document = {"cells": [text, *code], "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}
    path = folder / "train.ipynb"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_the_words_that_name_a_notebook(tmp_path: Path) -> None:
    """Alone it has Jupyter's kernel, below a Python that one; programs are left alone."""
    path = str(_notebook(tmp_path, "pass"))
    alone = notebook_in([path], os.environ)
    assert alone is not None
    assert alone.kernel[:4] == (sys.executable, "-m", "ipykernel_launcher", "-f")
    named = notebook_in([sys.executable, "-X", "dev", path], os.environ)
    assert named is not None
    assert named.kernel[:6] == (sys.executable, "-X", "dev", "-m", "ipykernel_launcher", "-f")
    for words in (
        ["python", "train.py"],
        ["python", "convert.py", path],
        ["python", "-m", "nbconvert", path],
        ["papermill", "in.ipynb", path],
    ):
        assert notebook_in(words, os.environ) is None


def test_notebooks_that_cannot_be_run(tmp_path: Path) -> None:
    """One error each, that says what to do."""
    path = str(_notebook(tmp_path, "pass"))
    with pytest.raises(UsageError, match="accepts no arguments"):
        notebook_in([path, "--epochs", "3"], os.environ)
    with pytest.raises(UsageError, match="No such file"):
        notebook_in([path + ".ipynb"], os.environ)
    with pytest.raises(MissingDependencyError, match="nbclient") as missing:
        notebook_in([path], os.environ, find=lambda _: None)
    assert missing.value.hint == "pip install 'gpuconf[notebook]'"
    unknown = str(_notebook(tmp_path, "pass", kernel="not-there"))
    with pytest.raises(UsageError, match="requests the kernel 'not-there'"):
        notebook_in([unknown], os.environ)
    (tmp_path / "other.ipynb").write_text("import keras\n", encoding="utf-8")
    with pytest.raises(UsageError, match="JSON document"):
        notebook_in([str(tmp_path / "other.ipynb")], os.environ)


def _other_python(folder: Path) -> Path:
    """A Python that has what we have, without gpuconf."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "more.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin" / "python"


def _run(path: Path, *words: str) -> RunResult:
    """Run a notebook that imports no TensorFlow, as a rehearsal would."""
    environ = clean_environment(path.parent)
    found = notebook_in([*words, str(path)], environ)
    assert found is not None
    return found.run((), Orders(), environ=environ, is_shown=False)


@pytest.mark.slow
def test_cells_in_a_kernel_of_another_python(tmp_path: Path) -> None:
    """Cells have numbers, installing is left out, errors are tolerated where the tag says so."""
    python = _other_python(tmp_path / "other")
    path = _notebook(
        tmp_path,
        "import os, sys\nfacts = [sys.prefix, os.getcwd()]",
        "",
        "!{sys.executable} -m pip install -q gpuconf-is-not-installed\n"
        "!echo shell > ran\n%pip install gpuconf-is-not-installed",
        "%%bash\npip install gpuconf-is-not-installed\necho script >> ran",
        "1/0",
        "open('facts', 'w').write(repr(facts))",
        "def f():\n    return {}['key']",
        "\nx = 1\nf()",
        "open('never', 'w')",
        tags={5: MAY_FAIL},
    )
    before = path.read_bytes()
    done = _run(path, str(python))
    assert (done.code, done.trainer["ended"]) == (1, "exit"), done.stderr
    assert [cell["cell"] for cell in done.trainer["cells"]] == [1, 3, 4, 5, 6, 7, 8]
    errors = {cell["cell"]: cell["error"] for cell in done.trainer["cells"] if cell["error"]}
    assert errors == {5: "ZeroDivisionError: division by zero", 8: "KeyError: 'key'"}
    assert done.trainer["uncaught"]["type"] == "KeyError"
    assert done.trainer["uncaught"]["where"] == "cell 8:2"
    left_out = done.trainer["not_run"]
    assert [(each["where"], "pip install" in each["what"]) for each in left_out] == [
        ("cell 3", True),
        ("cell 3", True),
        ("cell 4", True),
    ]
    assert (tmp_path / "ran").read_text() == "shell\nscript\n"
    assert (tmp_path / "facts").read_text() == repr([str(tmp_path / "other"), str(tmp_path)])
    assert not (tmp_path / "never").exists()
    assert path.read_bytes() == before
    verdict = verdict_of(done)
    assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)
    assert verdict.because == "the script itself failed in cell 8, line 2: KeyError: 'key'"
    # IPython's own traceback, without the colors of a terminal.
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "\x1b[" not in done.stderr


@pytest.mark.slow
def test_the_end_of_a_kernel(tmp_path: Path) -> None:
    """Nobody answers input(); a kernel that fails is reported by its signal."""
    done = _run(_notebook(tmp_path, "name = input('who? ')"))
    assert (done.code, done.trainer["uncaught"]["where"]) == (1, "cell 1:1")
    assert done.trainer["uncaught"]["type"] == "StdinNotImplementedError"
    done = _run(_notebook(tmp_path, "import os", "os.abort()"))
    assert verdict_of(done).because == "the script was ended by SIGABRT in cell 2"


TRAINING = (
    "import keras, numpy as np",
    "from keras.layers import Dense, Input\n"
    "model = keras.Sequential([Input((64,)), Dense(64), Dense(1)])\n"
    "model.compile('adam', 'mse')",
    "x = np.ones((64, 64), 'float32')\nmodel.train_on_batch(x, x[:, :1])",
    "!cp train.ipynb copied\n!pwd > where\n!pwd\nlisted = !ls\nassert 'train.ipynb' in listed\n"
    "def judge(n):\n    return model(np.ones((n, 64), 'float32'))",
    "judge(8)\njudge(1_000_000)",
    "print('never')",
)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("tensorflow") is None, reason="tensorflow is not installed")
def test_a_verdict_by_cell(tmp_path: Path) -> None:
    """Out of GPU memory in a cell and its line; the peak of each cell that used memory."""
    path = _notebook(tmp_path, *TRAINING)
    notebook = notebook_in([str(path)], os.environ)
    assert isinstance(notebook, Notebook)
    bridge = bridge_for_command(notebook.kernel, environ=os.environ)
    spec = CardSpec(total_bytes=400 * MIB)
    with simulated_card(spec) as card:
        done = rehearse(
            [str(path)],
            Orders(),
            spec=spec,
            card=card,
            environ=card.environment(clean_environment(tmp_path), bridge=bridge),
            other_batches="never",
            run=lambda command, *args, **options: notebook.run(
                command, *args, **{**options, "is_shown": False}
            ),
        )
    verdict = done.verdict
    assert verdict.answer == "does not fit", done.first.stderr[-3000:]
    assert "in cell 5, line 2" in verdict.because
    assert verdict.failure is not None
    assert verdict.failure.asked_bytes == 1_000_000 * 64 * 4
    (failed,) = (each for each in done.first.trainer["phases"] if each["error"] is not None)
    assert (failed["kind"], failed["batch"]) == ("call", 1_000_000)
    assert verdict.failure.in_use_bytes is not None  # by the log, which is not a cell's output
    cells = cells_of(done.first)
    assert [each.cell for each in cells] == [1, 2, 3, 4, 5]
    assert [each.error is not None for each in cells] == [False] * 4 + [True]
    trained, judged = cells[2], cells[4]
    assert trained.peak_bytes is not None
    assert judged.peak_bytes is not None
    assert 0 < judged.peak_bytes <= trained.peak_bytes == done.devices[0].peak_bytes
    document = document_of(done)
    assert [(each.where, each.what) for each in document.not_run] == [
        ("cell 4", "`cp train.ipynb copied`"),
        ("cell 4", "`pwd > where`"),
    ]
    assert {path.name for path in tmp_path.iterdir()} & {"copied", "where"} == set()
    assert document.command == (str(path),)
    assert document.cells == cells
