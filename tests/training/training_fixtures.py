"""Everything trained and computed once on the CPU and once on the simulated GPU.

A few processes for the whole session, because each waits some seconds for TensorFlow: the same
two sides as `make models` has, without its one-at-a-time execution of nodes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import stages
from benchmarks.stages import Result, Stage
from tests.programs import warm
from tests.training.all_operations import OPERATIONS
from tests.training.refused_operations import REFUSED
from tests.training.training_choice import TRAINED, BothSides

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def card_side() -> Iterator[Stage]:
    """A simulated GPU with the bridge for this Python's TensorFlow."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler named c++")
    with stages.card(os.environ) as stage:
        yield stage


@pytest.fixture(scope="session")
def operations(
    card_side: Stage, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> BothSides:
    """The operations that this run requests."""
    names, program = _wanted(request, OPERATIONS), _HERE / "run_operations.py"
    return _on_both(card_side, program, names, tmp_path_factory.mktemp("operations"))


@pytest.fixture(scope="session")
def trainings(
    card_side: Stage, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> BothSides:
    """Those of ``TRAINED`` that this run requests."""
    names, program = _wanted(request, TRAINED), _HERE / "run_trainings.py"
    return _on_both(card_side, program, names, tmp_path_factory.mktemp("trainings"))


@pytest.fixture(scope="session")
def refusals(card_side: Stage, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    """What came of the operations that must be refused, on the GPU."""
    program = _HERE / "refused_operations.py"
    stage = card_side._replace(environ={**card_side.environ, warm.VARIABLE: "1"})
    return stages.run_cases(stage, program, list(REFUSED), tmp_path_factory.mktemp("refusals"))


def _wanted(request: pytest.FixtureRequest, names: Collection[str]) -> list[str]:
    """Those of ``names`` that are parameters of the tests of this run."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = {item.callspec.params.get("name") for item in items if hasattr(item, "callspec")}
    return [name for name in names if name in wanted]


def _on_both(card: Stage, program: Path, names: Sequence[str], scratch: Path) -> BothSides:
    """At the same time: each waits a good deal for itself.

    Fresh: after a fork of `tests.programs.warm` the CPU's side hangs in its first operation.
    """
    cpu = stages.comparable_cpu(os.environ)
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(stages.run_cases, stage, program, names, scratch / stage.name)
            for stage in (cpu, card)
        ]
        return BothSides(*(each.result() for each in running))
