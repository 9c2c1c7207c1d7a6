"""``%%gpuconf isolated``: what goes in and comes back, in IPython and in a Jupyter kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from gpuconf.simcard import Card
from tests.ipython.shells import run_cells
from tests.programs.card_clients import STORY
from tests.programs.processes import clean_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_cells_in_ipython(tmp_path: Path) -> None:
    """Variables and functions that are read go in, `-o` comes back, and no other variable of the
    notebook changes; an error shows the cell's own lines.
    """
    cells = run_cells(
        tmp_path,
        "x, kept = 20, 1\ndef add(a, b): return a + b + x",
        "%%gpuconf isolated -o y,Made\nkept = 2\nclass Made: pass\ny = add(x, 1)\n{'shown': y}",
        "print(y, Made.__name__, kept)",
        "%%gpuconf isolated\nwrong = 1\nwrong / 0",
        "%%gpuconf isolated -o nothing\n1;",
        "import threading; lock = threading.Lock()",
        "%%gpuconf isolated -o x\nlock = 3\nx += lock",
        "print(x)",
        "%%gpuconf isolated\nlock.acquire()",
        "%%gpuconf isolated\nimport os; os._exit(3)",
    )
    assert [cell.error for cell in cells] == [
        *("", "", "", "ZeroDivisionError", "UsageError"),
        *("", "", "", "UsageError", "IsolatedProcessError"),
    ]
    assert cells[1].out == "{'shown': 41}\n"
    assert cells[2].out == "41 Made 1\n"
    shown = cells[3].out + cells[3].err
    assert "line 3, in <module>\n    wrong / 0\n" in shown
    assert "isolation" not in shown
    assert "the cell has not set nothing" in cells[4].out + cells[4].err
    assert cells[7].out == "23\n"
    refused = cells[8].out + cells[8].err
    assert "argument lock of run_cell cannot be sent" in refused
    assert "Traceback" not in refused


def test_autograph_converts_the_functions_of_a_cell(tmp_path: Path) -> None:
    """It reads their source, which is in no file."""
    function = (
        "import tensorflow as tf\n"
        "@tf.function\n"
        "def doubled(x):\n"
        "    if tf.reduce_sum(x) > 0:\n"
        "        return x * 2\n"
        "    return x\n"
        "y = doubled(tf.constant([2.0])).numpy().tolist()\n"
    )
    environ = {"GPUCONF_PROFILE": "cpu-only"}
    cells = run_cells(tmp_path, f"%%gpuconf isolated -o y\n{function}", "print(y)", environ=environ)
    assert cells[1].out == "[4.0]\n", cells[0].err


def test_a_mistake_is_one_error(tmp_path: Path) -> None:
    """Without a traceback; nothing runs. Help is no error, and `%unload_ext` removes the magic."""
    mistakes = {
        **{
            f"%%gpuconf isolated -o x,{name}\n1": f"variable names; got '{name}'"
            for name in ("a+b", "__name__", "class", "Out")
        },
        "%%gpuconf plan\n1": "`%%gpuconf plan`: the first line of a cell",
        "%%gpuconf isolated --wait x\n1": "does not recognize '--wait'",
    }
    more = ("%%gpuconf isolated --help\n1", "%gpuconf help isolated", "%unload_ext gpuconf")
    cells = run_cells(tmp_path, *mistakes, *more, "%%gpuconf isolated\nprint('it ran')")
    *found_of, line_help, cell_help, _, unloaded = cells
    assert line_help.out == cell_help.out
    assert line_help.out.startswith("usage: %%gpuconf isolated")
    assert "it ran" not in unloaded.out
    for found, words in zip(found_of, mistakes.values(), strict=True):
        assert found.error == "UsageError"
        assert words in found.out + found.err
        assert "Traceback" not in found.out + found.err


@pytest.fixture
def kernel(card: Card, tmp_path: Path) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """A kernel on the simulated GPU."""
    environ = card.environment(clean_environment(tmp_path, {"PYTHONPATH": str(ROOT)}))
    manager, client = start_new_kernel(env=environ, cwd=str(tmp_path))
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


_TRIAL = """%%gpuconf isolated -o used
from tests.programs.cuda_client import MIB, Cuda
cuda = Cuda()
cuda.enter()
assert cuda.allocate(size * MIB)[0] == 0
used = cuda.memory()[1] - cuda.memory()[0]
"""
_FIGURE = """%%gpuconf isolated
import matplotlib.pyplot as plt
from IPython.display import HTML, display
display(HTML("<b>bold</b>"))
plt.plot([1, 2]);
"""
_LONG = """%%gpuconf isolated -o said
import time
try:
    print("started", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    said = "stopped early"
"""


def test_a_notebook_ends_with_the_gpu_as_it_began(
    kernel: tuple[KernelManager, BlockingKernelClient], card: Card
) -> None:
    """Three trials, displays, and *interrupt kernel*, which is for the cell."""
    manager, client = kernel

    def run(code: str, *, interrupt: bool = False) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []

        def see(message: dict[str, Any]) -> None:
            shown.append(message["content"])
            if interrupt and "started" in message["content"].get("text", ""):
                manager.interrupt_kernel()

        client.execute_interactive(code, output_hook=see, timeout=120)
        errors = [each["evalue"] for each in shown if "evalue" in each]
        assert not errors, errors
        return shown

    def said(code: str) -> str:
        return "".join(each.get("text", "") for each in run(f"print({code})"))

    run("%load_ext gpuconf\nfound = []")
    for size in (256, 512, 1024):
        run(f"size = {size}")
        run(_TRIAL)
        run("found.append(used)")
        assert (card.used_bytes(), card.processes()) == (STORY.used_bytes, ())
    first, second, third = eval(said("found"))
    assert (second - first, third - second) == (256 << 20, 512 << 20)
    data = [each["data"] for each in run(_FIGURE) if "data" in each]
    assert [next(name for name in each if name != "text/plain") for each in data] == [
        *("text/html", "image/png"),
    ]
    run(_LONG, interrupt=True)
    assert said("said") == "stopped early\n"
    assert (card.used_bytes(), card.processes()) == (STORY.used_bytes, ())
