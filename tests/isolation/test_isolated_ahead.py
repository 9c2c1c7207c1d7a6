"""``gpuconf.isolated(ahead=True)``: a process for the next call, which has imported a framework."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconf.simcard import Card
from tests.programs.card_clients import wait_until
from tests.programs.processes import (
    Program,
    Start,
    clean_environment,
    is_alive,
    run_python,
    write_package,
)
from tests.programs.stand_ins import write_torch

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow  # each call starts a program

# A framework whose import writes the process into a file, and prints.
_FRAMEWORK = """
import os, pathlib
file = pathlib.Path(__file__).with_name("imports")
with file.open("a") as log: log.write(f"{os.getpid()} ")
print("imported")
assert not os.environ.get("FAILS_AHEAD") or len(file.read_text().split()) != 2
"""
_CALLS = """
import os, pathlib, sys, time
import gpuconf

imports = pathlib.Path("jax/imports")

def imported(count):
    while not imports.exists() or len(imports.read_text().split()) < count:
        time.sleep(0.01)
    return [int(each) for each in imports.read_text().split()]

def state():
    import jax
    from gpuconf.basics.processes import program_of, words_of
    assert program_of(words_of(os.getpid())) == program_of(words_of(os.getppid()))
    return os.getpid(), os.getcwd(), list(sys.argv), os.environ.get("ADDED")

call = gpuconf.isolated(state, ahead=True)
"""

_FORGETS = "import gc; del call; gc.collect(); time.sleep(600)"


def _run(tmp_path: Path, code: str, environ: dict[str, str] | None = None) -> list[str]:
    write_package(tmp_path, {"jax/__init__.py": _FRAMEWORK, "folder/empty.py": ""})
    return run_python(_CALLS + code, tmp_path, environ=environ).splitlines()


def test_a_process_for_the_next_call_imports_ahead(tmp_path: Path) -> None:
    """From the second call on, while the caller does other work; what that prints is dropped."""
    code = (
        "first = call()[0]\n"
        "ready = imported(2)\n"
        "print(ready[0] == first, call()[0] == ready[1], call()[0] == imported(3)[2])\n"
    )
    assert _run(tmp_path, code) == ["imported", "True True True"]


def test_a_function_that_imports_nothing(tmp_path: Path) -> None:
    """Has no process ahead; it may call itself, each call with its own process."""
    code = (
        "@gpuconf.isolated(ahead=True)\n"
        "def factorial(x): return x * factorial(x - 1) if x else 1\n"
        "from gpuconf.isolation.process import _aheads\n"
        "print(factorial(3), _aheads[factorial]._processes)\n"
    )
    assert _run(tmp_path, code) == ["6 []"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("os.environ['ADDED'] = 'now'", "print(found[3] == 'now')"),
        ("os.chdir('folder')", "print(found[1] == os.getcwd())"),
        ("sys.argv.append('more')", "print(found[2][-1] == 'more')"),
    ],
)
def test_a_caller_that_has_changed(tmp_path: Path, change: str, expected: str) -> None:
    """The call is as without ``ahead``, and the process that waited ends."""
    code = (
        "from tests.programs.processes import is_alive\n"
        "call()\n"
        "waiting = imported(2)[1]\n"
        f"{change}\n"
        "found = call()\n"
        f"{expected}\n"
        "print(found[0] != waiting, is_alive(waiting))\n"
    )
    # The process of the call is fresh, so it prints.
    expected_lines = ["imported", "imported", "True", "True False"]
    assert _run(tmp_path, code, {"PYTHONPATH": str(ROOT)}) == expected_lines


def test_an_import_that_fails_ahead(tmp_path: Path) -> None:
    """The call's own process imports again."""
    code = "call()\nfailed = imported(2)[1]\nprint(call()[0] in set(imported(3)) - {failed})\n"
    assert _run(tmp_path, code, {"FAILS_AHEAD": "1"}) == ["imported", "imported", "True"]


@pytest.mark.parametrize("at_least", ["1GiB", "4GiB"])
def test_little_memory_ahead(start: Start, card: Card, tmp_path: Path, at_least: str) -> None:
    """The process imports anyway, and neither fails nor waits; the call has its own plan."""
    file = write_torch(tmp_path) / "torch" / "__init__.py"
    file.write_text(file.read_text(encoding="utf-8") + _FRAMEWORK, encoding="utf-8")
    code = (
        "from tests.programs.cuda_client import MIB, Cuda\n"
        "imports = pathlib.Path('torch/imports')\n"
        "cuda, console = Cuda(), sys.stdout\n"
        "cuda.enter()\n"
        "class Filling:\n"  # at the end of the first call, before the next process starts
        "    def write(self, text):\n"
        "        if 'done' in text: self.held = cuda.allocate(6144 * MIB)[1]\n"
        "    def flush(self): pass\n"
        "sys.stdout = full = Filling()\n"
        "def limit():\n"
        "    import torch\n"
        "    torch.cuda._lazy_init()\n"
        "    print('done')\n"
        "    return os.getpid(), gpuconf.activation().plan.gpus[0].limit_bytes\n"
        f"rules = {{'at_least': '{at_least}', 'on_shortage': {{'wait': '10min'}}}}\n"
        "trial = gpuconf.isolated(limit, ahead=True, memory=rules)\n"
        "first = trial()\n"
        "sys.stdout = console\n"
        "waiting = imported(2)[1]\n"
        "cuda.free(full.held)\n"
        "print(trial() == (waiting, first[1]) != first)\n"
    )
    environ = clean_environment(tmp_path, {"PYTHONPATH": str(ROOT)})
    program = start([sys.executable, "-c", _CALLS + code], card.environment(environ))
    assert program.read_line() == "done"
    assert program.read_line() == "True"


@pytest.fixture
def begin(start: Start, tmp_path: Path) -> Callable[[str], tuple[Program, int]]:
    """Start a caller; return it and the process that waits for its next call."""
    write_package(tmp_path, {"jax/__init__.py": _FRAMEWORK})

    def begin_one(code: str) -> tuple[Program, int]:
        ready = "call()\nprint(imported(2)[1], flush=True)\n"
        program = start([sys.executable, "-c", _CALLS + ready + code], clean_environment(tmp_path))
        assert program.read_line() == "imported"
        return program, int(program.read_line())

    return begin_one


@pytest.mark.parametrize("code", ["", "os._exit(1)", _FORGETS])
def test_it_ends_with_its_caller(begin: Callable[[str], tuple[Program, int]], code: str) -> None:
    """And with the function, if the caller forgets it."""
    program, pid = begin(code)
    if code != _FORGETS:
        program.wait()
    wait_until(lambda: not is_alive(pid))
    assert is_alive(program.pid) == (code == _FORGETS)


def test_a_fork_leaves_it_to_the_parent(begin: Callable[[str], tuple[Program, int]]) -> None:
    """The fork's call has its own process."""
    code = (
        "child = os.fork()\n"
        "found = call()[0] == imported(2)[1]\n"
        "if child: os.waitpid(child, 0)\n"
        "print(found, flush=True)\n"
    )
    program, _ = begin(code)
    assert {program.read_line() for _ in range(3)} == {"imported", "True", "False"}
