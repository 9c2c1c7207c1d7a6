"""The diagnosis below a cell's traceback, from %load_ext to %unload_ext."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.commands.explain.test_uncaught import FAILURE
from tests.ipython.shells import run_cells
from tests.programs.processes import run, run_python

pytestmark = pytest.mark.slow  # waits for programs

IPYTHON = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.display_formatter.active_types = ["text/plain"]  # as in a terminal
def cell(text):
    print("cell:", text.split()[0], flush=True)
    shell.run_cell(text)
    sys.stdout.flush()
"""


def cells(folder: Path, *texts: str) -> list[str]:
    """What IPython shows for each cell, both streams in the order in which they were written."""
    lines = [IPYTHON, f"shell.run_cell({FAILURE!r})", *(f"cell({text!r})" for text in texts)]
    (folder / "program.py").write_text("\n".join(lines), encoding="utf-8")
    done = run(["bash", "-c", f"exec {sys.executable} -u program.py 2>&1"], folder)
    assert done.returncode == 0, done.stdout
    return [part.partition("\n")[2] for part in done.stdout.split("cell: ")[1:]]


def test_ipython_tells_below_the_traceback(tmp_path: Path) -> None:
    """From %load_ext to %unload_ext; for this kind of exception, not for a slip of the keyboard."""
    before, loaded, oom, slip, fine, again, twice, unloaded, after = cells(
        tmp_path,
        "train()",
        "%load_ext gpuconf",
        "train()",
        "no_such_name",
        "1 + 1",
        "%load_ext gpuconf",
        "train()",
        "%unload_ext gpuconf",
        "train()",
    )
    for shown in before, after:
        assert "OOM when allocating" in shown
        assert "gpuconf: " not in shown
    assert (loaded, unloaded) == ("", "")
    assert oom.index("OOM when allocating") < oom.index("gpuconf: no room on the GPU for a tensor")
    assert "[8192, 8192] float32 = 256 MiB" in oom
    assert "NameError" in slip
    assert "gpuconf: " not in slip + fine
    assert "already loaded" in again
    assert twice.count("gpuconf: no room on the GPU") == 1


def test_ipython_may_be_loaded_by_hand_and_again(tmp_path: Path) -> None:
    """Twice by hand is once; %reload_ext continues; unloading what is not loaded is nothing."""
    by_hand = "import gpuconf as g; g.load_ipython_extension(get_ipython())"
    shown = cells(
        tmp_path,
        "import gpuconf as g; g.unload_ipython_extension(get_ipython())",
        by_hand,
        by_hand,
        "train()",
        "%reload_ext gpuconf",
        "train()",
        "g.unload_ipython_extension(get_ipython())",
        "train()",
    )
    counts = [text.count("gpuconf: no room on the GPU") for text in shown]
    assert counts == [0, 0, 0, 1, 0, 1, 0, 0]


def test_a_notebook_gets_a_picture(tmp_path: Path) -> None:
    """The diagnosis is drawn, names the cell in place of a file, and can be requested again."""
    _, failed, slip, explained, document = run_cells(
        tmp_path,
        FAILURE,
        "train()",
        "%gpuconf exlain",
        "%gpuconf explain",
        "%gpuconf explain --json",
    )
    assert failed.error == "ResourceExhaustedError"
    assert "no room on the GPU for a tensor" in failed.html
    assert "Cell In[1]:5" in failed.text
    assert "line 1" not in failed.text.splitlines()[1]
    assert slip.displays == []
    assert explained.displays == failed.displays
    assert '"cause": "oom-device-tensor"' in document.out


PINS = """
import weakref
refs = []
class Tensor:
    pass
def train():
    tensor = Tensor()
    refs.append(weakref.ref(tensor))
    raise MemoryError("CUDA_ERROR_OUT_OF_MEMORY: out of memory")
"""


def test_nothing_of_a_failure_is_kept_alive(tmp_path: Path) -> None:
    """What the failed cell's frames held is free once the shell lets go of the exception."""
    program = f"""
    import gc, sys
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_line_magic("load_ext", "gpuconf")
    shell.run_cell({PINS!r})
    shell.run_cell("train()")
    ref = shell.user_ns["refs"][0]
    assert ref() is not None  # IPython itself still has the exception
    shell.run_cell("1 / 0")  # another one takes its place
    gc.collect()
    assert ref() is None
    """
    run_python(program, tmp_path)
