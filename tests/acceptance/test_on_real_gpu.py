"""Every promise of checks.py, kept on this machine's own GPU: `make gpu`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuconf.hardware import read_inventory
from tests.acceptance.checks import ALL, Check
from tests.acceptance.stage import Stage, real_stage

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not read_inventory().gpus, reason="needs a GPU"),
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The real card."""
    with real_stage() as real:
        yield real


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_promise_on_a_real_gpu(check: Check, stage: Stage) -> None:
    """Each row of the check came out as expected."""
    assert [row for row in check(stage) if not row.is_good] == []
