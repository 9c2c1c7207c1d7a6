"""Every promise of framework_checks.py, kept by the gate's PyTorch and JAX on simulated GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.framework_checks import ALL, TITLES, Check, without_us_the_second_dies
from tests.acceptance.stage import Stage, simulated_stage

pytestmark = pytest.mark.slow(seconds=8)


@pytest.fixture(scope="module", params=TITLES)
def framework(request: pytest.FixtureRequest) -> str:
    """torch, then jax."""
    return str(request.param)


@pytest.fixture(scope="module")
def stage(framework: str) -> Iterator[Stage]:
    """Two simulated GPUs; each check leaves them as it found them."""
    with simulated_stage(framework=framework, count=2) as simulated:
        yield simulated


# That the promises are needed: in the gate TensorFlow shows it.
_CHECKS = [
    pytest.param(check, marks=pytest.mark.nightly if check is without_us_the_second_dies else ())
    for check in ALL
]


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.__name__)
def test_promise(check: Check, stage: Stage, framework: str) -> None:
    """Each row of the check came out as expected, and no process is left on the GPU."""
    rows = check(stage, framework)
    assert rows
    assert [row for row in rows if not row.is_good] == []
    assert stage.gpu().used_bytes == 1945 << 20
