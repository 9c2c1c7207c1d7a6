"""GPUs, and programs that run on them: a bare CUDA client, NVML, and TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconf.errors import MissingDependencyError
from gpuconf.simcard import Card, bridge_for_command, build_libraries, simulated_card
from tests.programs import warm
from tests.programs.card_clients import CLIENT, PYTHON_VARIABLE, STORY, RunClient, StartClient
from tests.programs.processes import Program, Start, run_with


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The built stand-in libraries."""
    try:
        return build_libraries()
    except MissingDependencyError as error:
        pytest.skip(str(error))


@pytest.fixture
def card(libraries: Path) -> Iterator[Card]:  # noqa: ARG001  # for its skip
    """The issue's GPU, with nobody on it yet."""
    with simulated_card(STORY) as made:
        yield made


@pytest.fixture
def two_cards(libraries: Path) -> Iterator[Card]:  # noqa: ARG001  # for its skip
    """Two GPUs in one card file."""
    with simulated_card(STORY._replace(count=2)) as made:
        yield made


@pytest.fixture(scope="session")
def bridge() -> Path:
    """The kernel bridge for this Python's TensorFlow."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler named c++")
    return bridge_for_command([sys.executable])


@pytest.fixture
def run_client() -> RunClient:
    """Run a line of Python with ``cuda`` on a GPU, to its end."""

    def run(card: Card, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(CLIENT), code]
        return run_with(command, {**card.environment(os.environ), **environ})

    return run


@pytest.fixture
def start_client(start: Start) -> StartClient:
    """Start such a line; what still runs at the end of the test is killed."""

    def begin(card: Card, code: str) -> Program:
        return start([sys.executable, str(CLIENT), code], card.environment(os.environ))

    return begin


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """An interpreter with a CUDA build of TensorFlow."""
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return named
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("tensorflow is not installed")
    facts = Path(spec.origin).parent / "python" / "platform" / "build_info.py"
    if "('is_cuda_build', True)" not in facts.read_text():
        pytest.skip("this tensorflow has no CUDA build (tensorflow-cpu)")
    return sys.executable


@pytest.fixture
def run_tensorflow(tensorflow_python: str) -> RunClient:
    """Run a program that imports tensorflow on a GPU, to its end; it must succeed.

    It shares an import of TensorFlow (see `tests.programs.warm`) unless ``fresh`` says why not.
    """

    def run(
        card: Card, code: str, fresh: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        base = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        own = {**card.environment(base), warm.VARIABLE: "" if fresh else "1", **environ}
        done = run_with([tensorflow_python, "-c", code], own, timeout_s=300)
        if environ.get("EXPECT_FAILURE") is None:
            assert done.returncode == 0, done.stderr[-4000:]
        return done

    return run
