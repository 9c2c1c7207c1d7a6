"""Every promise of both files of checks, kept on this machine's own GPU: `make gpu`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from gpuconf.machine.cards import read_inventory
from tests.acceptance import framework_checks
from tests.acceptance.checks import ALL, Check
from tests.acceptance.stage import Stage, real_stage

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not read_inventory().gpus, reason="needs a GPU")]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The real GPU."""
    with real_stage() as real:
        yield real


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_promise_on_a_real_gpu(check: Check, stage: Stage) -> None:
    """Each row of the check came out as expected."""
    assert [row for row in check(stage) if not row.is_good] == []


@pytest.mark.parametrize("framework", framework_checks.TITLES)
@pytest.mark.parametrize("check", framework_checks.ALL, ids=lambda check: check.__name__)
def test_promise_of_another_framework(
    check: framework_checks.Check, framework: str, stage: Stage
) -> None:
    """The same for PyTorch and JAX, where this environment has them with CUDA."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    assert [row for row in check(stage, framework) if not row.is_good] == []
