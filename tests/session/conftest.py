"""Frameworks that every program of these tests finds next to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.processes import write_package
from tests.programs.stand_ins import IMPORTED


@pytest.fixture(autouse=True)
def _frameworks(tmp_path: Path) -> None:
    """Frameworks of which only the import matters: ``import cupy``, ``import numba.cuda``."""
    write_package(tmp_path, IMPORTED)
