"""A ledger of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.machine.leases.folder import MODE, LedgerFolder
from gpuconf.machine.leases.ledger import Ledger


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A ledger's folder."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    folder.chmod(MODE)
    return folder


@pytest.fixture
def ledger(root: Path) -> Ledger:
    """The ledger, as this process uses it."""
    return Ledger(LedgerFolder(str(root)))
