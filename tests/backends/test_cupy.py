"""A plan as the variable that CuPy reads; CuPy itself is not needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.backends.cupy import LIMIT, limit_wishes
from gpuconf.basics.environment import settle
from tests.backends.test_jax_environment import planned
from tests.programs.binding_programs import ROOMY
from tests.programs.processes import Nvml, run_python


@pytest.mark.parametrize(
    ("limits", "theirs", "expected"),
    [
        ((5120,), "", 5120 << 20),
        ((5120, 5120), "", 5120 << 20),
        ((5120, 4096), "", None),
        ((5120, None), "", None),
        ((None,), "", None),
        ((), "", None),
        ((5120,), str(1 << 30), 1 << 30),
        ((5120,), "50%", "50%"),
        ((5120,), "51%", 5120 << 20),
        ((5120,), "0", 5120 << 20),
        ((5120,), "a lot", 5120 << 20),
    ],
)
def test_the_limit(limits: tuple[int | None, ...], theirs: str, expected: object) -> None:
    """Set if it is the same on all GPUs of 10 GiB; a smaller value of the user's stays."""
    baseline = {LIMIT: theirs} if theirs else {}
    changes, _ = settle(limit_wishes(planned(*limits), baseline), baseline)
    assert changes.get(LIMIT) == (None if expected is None else str(expected))


def test_it_is_there_when_cupy_is_imported(tmp_path: Path, nvml: Nvml) -> None:
    """CuPy reads the variable at import, as the module cupy of this test does."""
    (tmp_path / "cupy.py").write_text(f"import os\nlimit = os.environ[{LIMIT!r}]\n")
    program = "import gpuconf\ngpuconf.configure('half-card')\nimport cupy\nprint(cupy.limit)"
    assert run_python(program, tmp_path, environ=nvml(ROOMY)).split() == [str(3942 << 20)]
