"""Every promise of checks.py, kept on the simulated GPU by this environment's TensorFlow."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from gpuconf.simcard.card import PROCESSES
from tests.acceptance.checks import ALL, Check, other_ways_to_devices_are_guarded
from tests.acceptance.stage import Stage, simulated_stage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]

# With all that TensorFlow imports where it is installed, see `lean_tensorflow`; `make matrix`
# runs every check where it is not.
WHOLE = {other_ways_to_devices_are_guarded}


# Native Linux; and as under WSL2, in containers and in vGPU guests.
_MODES = ["exact", *(pytest.param(m, marks=pytest.mark.nightly) for m in PROCESSES if m != "exact")]


@pytest.fixture(scope="module", params=_MODES)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """One simulated GPU for all; each check leaves it as it found it."""
    with simulated_stage(processes=request.param) as simulated:
        yield simulated


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_promise(check: Check, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the check came out as expected, and no process is left on the GPU."""
    if check in WHOLE:
        monkeypatch.setitem(stage.environ, "WHOLE_TENSORFLOW", "1")
    rows = check(stage)
    assert rows
    assert [row for row in rows if not row.is_good] == []
    assert stage.gpu().used_bytes == 1945 << 20
