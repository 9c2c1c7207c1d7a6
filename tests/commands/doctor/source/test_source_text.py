"""The file edge of the source lint: what it reads, notebooks, encodings, refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpuconf.commands.doctor.finding import SourcePlace
from gpuconf.commands.doctor.source import check_script, findings_in, scripts_in
from gpuconf.errors import UsageError
from tests.programs.processes import write_package

BAD_LINE = 'os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"'


def notebook(*cells: str | list[str]) -> str:
    """A notebook's JSON with these code cells, and one of text before them."""
    code = [{"cell_type": "code", "source": cell, "outputs": []} for cell in cells]
    words = {"cell_type": "markdown", "source": ["# import tensorflow, he said"]}
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": [words, *code]})


def test_a_notebook_names_cell_and_line() -> None:
    """Cells are one program in their order; a place is file:cell:line, code cells from 1."""
    text = notebook("import tensorflow as tf", ["import os\n", f"{BAD_LINE}\n"], "x = 1")
    summaries = [each.summary for each in findings_in(text, "nb.ipynb")]
    assert any(each.startswith("nb.ipynb:cell 1:1: no profile applies") for each in summaries)
    assert any(each.startswith("nb.ipynb:cell 2:2: TF_FORCE") for each in summaries)


def test_what_only_ipython_reads_is_left_out() -> None:
    """Magics, shell lines and whole cells of another language are not syntax errors."""
    cells = (
        "%matplotlib inline\n!pip install keras\nfiles = !ls\nif 1:\n    !nvidia-smi\nlen?",
        "%%bash\necho 'hello",
        f"%%time\nimport os\n{BAD_LINE}",
        "!saved_model_cli show \\\n    --dir a \\\n    --all\nx = 1",
        "a = 7\nb = a \\\n  % 3",
        "%cd x\na = 7\nb = a \\\n  % 3",
        "import re\nre.compile('\\d')",
    )
    findings = findings_in(notebook(*cells), "nb.ipynb")
    assert [each.id for each in findings] == ["source.refused_value"]
    assert findings[0].summary.startswith("nb.ipynb:cell 3:3:")


def test_a_syntax_error_in_a_cell() -> None:
    """It is told with its cell."""
    cells = notebook("x = 1", "y = 1\n= 3", "if x:", f"import os, keras\n{BAD_LINE}", "tf.argmax?")
    finding, other, missing = findings_in(cells, "nb.ipynb")
    assert (other.id, missing.id) == ("source.auto_missing", "source.refused_value")
    assert finding.detail[1] == "also at nb.ipynb:cell 3:1"
    assert finding.fix == "# correct this line; the other cells were read"
    old = findings_in(notebook("import keras", "print 'x'"), "nb.ipynb")
    assert [each.id for each in old][:2] == ["source.syntax", "source.unedited"]
    (finding,) = findings_in(notebook("x = 1", "y = 1\n= 3"), "nb.ipynb")
    assert (finding.id, finding.status) == ("source.syntax", "fail")
    assert finding.summary.startswith("nb.ipynb:cell 2:2:1: ")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"worksheets": [3]}', "null"])
def test_a_notebook_that_is_none(text: str) -> None:
    """It is a finding that says so."""
    (finding,) = findings_in(text, "nb.ipynb")
    assert (finding.id, finding.status) == ("source.syntax", "fail")


def test_an_old_notebook_and_an_empty_one() -> None:
    """Format 3 keeps its cells in a worksheet, under another key."""
    cell = {"cell_type": "code", "input": [f"import os\n{BAD_LINE}"]}
    (finding,) = findings_in(json.dumps({"worksheets": [{"cells": [cell]}]}), "nb.ipynb")
    assert finding.id == "source.refused_value"
    assert [each.id for each in findings_in(notebook(), "nb.ipynb")] == ["source.clean"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    """A script is read in the encoding that it declares, by comment or by mark."""
    path = tmp_path / "train.py"
    declared = "# coding: latin-1\n" if encoding == "latin-1" else "#\n"
    path.write_bytes(f"{declared}import os  # Größe\r\n{BAD_LINE}\r\n".encode(encoding))
    (finding,) = check_script(str(path))
    assert finding.summary.startswith(f"{path}:3: ")


@pytest.mark.parametrize("raw", [b"# coding: klingon\n", b"x = '\xff'\n", b"x = 1\0\n"])
def test_bytes_that_are_no_text(tmp_path: Path, raw: bytes) -> None:
    """An encoding that there is not, or that is broken, is a finding."""
    path = tmp_path / "train.py"
    path.write_bytes(raw)
    (finding,) = check_script(str(path))
    assert (finding.id, finding.status) == ("source.syntax", "fail")


def test_a_form_feed_is_no_end_of_a_line() -> None:
    """Lines are counted as Python counts them."""
    (finding,) = findings_in(f"import os\n\x0c\n# a\x0b\x1cb\n{BAD_LINE}\n", "train.py")
    assert finding.summary.startswith("train.py:4:")
    assert finding.detail[0].strip() == BAD_LINE


def test_what_cannot_be_read_is_a_mistake_in_the_command(tmp_path: Path) -> None:
    """No file, a folder, a pipe, a giant: UsageError with a hint, and no waiting."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "giant.py").write_bytes(b"#" * (32 * 1024**2 + 1))
    for name in ("nosuch.py", "", "pipe.py", "giant.py"):
        with pytest.raises(UsageError) as caught:
            check_script(str(tmp_path / name))
        assert caught.value.hint


def test_the_script_is_never_run(tmp_path: Path) -> None:
    """Reading it has no effect of its own."""
    path = tmp_path / "train.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(3)\n")
    check_script(str(path))
    assert not (tmp_path / "ran").exists()


# Each is a notebook saved as a script, by jupytext, VS Code, Spyder, and nbconvert.
PERCENT = f"""# ---
# jupyter: {{}}
# ---
# %% [markdown]
# # A network
# %%
# the data
!pip install keras
%matplotlib inline
import os
# %%

%%bash
echo "it's
#%%
%%time
{BAD_LINE}
"""
CONVERTED = f"""#!/usr/bin/env python
# coding: utf-8

# In[3]:


get_ipython().system('pip install keras')
import os
{BAD_LINE}
"""
COLAB = f'"""Automatically generated."""\n!pip install keras\nimport os\n{BAD_LINE}\n'


@pytest.mark.parametrize(("text", "line"), [(PERCENT, 17), (CONVERTED, 9), (COLAB, 4)])
def test_a_notebook_saved_as_a_script(text: str, line: int) -> None:
    """What only IPython reads is left out; a line of it where no editor has cells is a finding."""
    *others, growth = findings_in(text, "train.py")
    assert (growth.id, growth.places[0].line) == ("source.refused_value", line)
    assert growth.summary.startswith(f"train.py:{line}: ")
    assert [each.id for each in others] == (["source.syntax"] if text == COLAB else [])
    if others:
        (found,) = others
        assert (found.status, found.detail[0]) == ("warn", "    !pip install keras")
        assert found.summary == ("train.py:2: only IPython can read this line, python cannot")


def test_python_2_is_not_taken_for_a_notebook() -> None:
    """Its syntax error stands at its own line."""
    (found, _) = findings_in("# %%\nimport keras\nprint 'x'\n", "train.py")
    assert (found.id, found.status, found.places[0].line) == ("source.syntax", "fail", 3)


def test_places() -> None:
    """From the first to the last line of what a finding is about; in a notebook within the cell."""
    call = "model.fit(x_train, y_train,\n    batch_size=len(x_train))"
    data = "(x_train, y_train), _ = keras.datasets.mnist.load_data()"
    text = f"import keras\n{data}\n{call}\n{call}\n"
    (found,) = [each for each in findings_in(text, "a.py") if each.id == "source.whole_set"]
    assert found.places == (SourcePlace("a.py", 3, 4), SourcePlace("a.py", 5, 6))
    cells = notebook("import keras", text)
    (found,) = [each for each in findings_in(cells, "a.ipynb") if each.id == "source.whole_set"]
    assert found.places[0] == SourcePlace("a.ipynb", 3, 4, cell=2)


def test_folders(tmp_path: Path) -> None:
    """All scripts and notebooks below, each once; not what is installed, built or hidden."""
    kept = ("a.py", "b/c.ipynb", "b/d.py")
    others = (
        *("a.txt", ".hidden.py", ".git/x.py", "node_modules/x.py", "build/x.py", "env/lib/x.py"),
        *("my.conda/x.py", "b/.ipynb_checkpoints/c.ipynb", "b/__pycache__/x.py"),
    )
    write_package(tmp_path, dict.fromkeys((*kept, *others), ""))
    write_package(tmp_path, {"env/pyvenv.cfg": "", "my.conda/conda-meta/history": ""})
    os.symlink(tmp_path, tmp_path / "b" / "loop")
    found = [os.path.relpath(each, tmp_path) for each in scripts_in([str(tmp_path)])]
    assert found == list(kept)
    named = [str(tmp_path / each) for each in ("b/d.py", "build/x.py", "b", "a.txt")]
    found = [os.path.relpath(each, tmp_path) for each in scripts_in(named)]
    assert found == ["b/d.py", "build/x.py", "b/c.ipynb", "a.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="there is no script or notebook in it"):
        scripts_in([str(tmp_path / "empty")])
