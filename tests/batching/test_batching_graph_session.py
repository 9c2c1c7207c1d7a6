"""``session_evaluate`` in graphs of TensorFlow 1; see the checks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.programs.processes import run

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("batching_graph_checks.py")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the program printed, one process for all checks."""
    folder = tmp_path_factory.mktemp("graphs")
    environ = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = run([sys.executable, str(PROGRAM)], folder, environ=environ, timeout_s=300)
    return str(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "check",
    [
        node.name
        for node in ast.parse(PROGRAM.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ],
)
def test_in_a_session(check: str, printed: str) -> None:
    """The check of this name ran to its end; its docstring says what it is."""
    assert f"CHECKED {check}\n" in printed, printed
