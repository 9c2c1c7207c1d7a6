"""Everything trained and computed once on the CPU and once on the simulated card.

A few processes for the whole session, because each waits some seconds for TensorFlow: the same
two sides as `make models` has, without its one-at-a-time execution of nodes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import stages
from benchmarks.stages import Result, Stage
from tests.training.all_operations import OPERATIONS
from tests.training.refused_operations import REFUSED
from tests.training.training_choice import TRAINED, BothSides

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def card_side() -> Iterator[Stage]:
    """A simulated card with the bridge for this Python's TensorFlow."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler named c++")
    with stages.card(os.environ) as stage:
        yield stage


@pytest.fixture(scope="session")
def operations(card_side: Stage, tmp_path_factory: pytest.TempPathFactory) -> BothSides:
    """Every operation of the table."""
    program = _HERE / "run_operations.py"
    return _on_both(card_side, program, list(OPERATIONS), tmp_path_factory.mktemp("operations"))


@pytest.fixture(scope="session")
def trainings(card_side: Stage, tmp_path_factory: pytest.TempPathFactory) -> BothSides:
    """The trainings of ``TRAINED``."""
    program = _HERE / "run_trainings.py"
    return _on_both(card_side, program, TRAINED, tmp_path_factory.mktemp("trainings"))


@pytest.fixture(scope="session")
def refusals(card_side: Stage, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    """What came of the operations that must be refused, on the card."""
    program = _HERE / "refused_operations.py"
    return stages.run_cases(card_side, program, list(REFUSED), tmp_path_factory.mktemp("refusals"))


def _on_both(card: Stage, program: Path, names: Sequence[str], scratch: Path) -> BothSides:
    """At the same time: each waits a good deal for itself."""
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(stages.run_cases, stage, program, names, scratch / stage.name)
            for stage in (stages.comparable_cpu(os.environ), card)
        ]
        return BothSides(*(each.result() for each in running))
