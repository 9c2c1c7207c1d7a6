"""Whether a process is a pool's worker, for both libraries that make such."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.programs.processes import run, write_package

# What a worker imports of the main module is run in the worker too, where no parent is set yet.
PROGRAM = """
import {library} as library
from gpuconf.basics.processes import is_worker
print("imported", is_worker(), flush=True)
def look():
    print("called", is_worker(), flush=True)
if __name__ == "__main__":
    worker = library.get_context("spawn").Process(target=look)
    worker.start()
    worker.join()
"""


@pytest.mark.parametrize("library", ["multiprocessing", "multiprocess"])
def test_a_spawned_worker_knows_that_it_is_one(library: str, tmp_path: Path) -> None:
    """While it imports the main module, and in what it is asked to do; its parent is none."""
    write_package(tmp_path, {"main.py": PROGRAM.format(library=library)})
    done = run([sys.executable, "main.py"], tmp_path)
    assert done.stdout.splitlines() == ["imported False", "imported True", "called True"], done
