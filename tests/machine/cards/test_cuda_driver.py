"""What the CUDA driver says of the process that asks, on a simulated GPU."""

from __future__ import annotations

from pathlib import Path

from gpuconf.simcard import Card
from tests.programs.processes import run_python

_PROGRAM = """
import ctypes
from gpuconf.machine.cards.cuda_driver import has_primary_context, has_started
from tests.programs.cuda_client import Cuda
print(has_started(), has_primary_context())
ctypes.CDLL("libcuda.so.1")
print(has_started(), has_primary_context())
cuda = Cuda()
print(has_started(), has_primary_context())
cuda.enter(1)
print(has_started(), has_primary_context())
"""


def test_the_question_starts_nothing(two_cards: Card, tmp_path: Path) -> None:
    """The driver is absent, then loaded, then started by cuInit, then has a context of GPU 1."""
    answers = run_python(_PROGRAM, tmp_path, environ=two_cards.environment({}))
    assert answers.splitlines() == ["False False", "False False", "True False", "True True"]
