"""Programs that hold leases, and the mutex, in a ledger of a test; each ends with its block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuconf.basics.units import MIB
from gpuconf.machine.leases.folder import MODE
from tests.programs.processes import Program, clean_environment

CARD = "GPU-0e8d35e3-0000-4000-8000-000000000000"
_HOLD = """
import sys
from gpuconf.machine.leases.folder import LedgerFolder
from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.ledger import Ledger

folder, card, namespace, state, size = sys.argv[1:]
ledger = Ledger(LedgerFolder(folder))
if int(namespace):
    ledger.owner = ledger.owner._replace(namespace=int(namespace))
with ledger.mutex.held():
    ledger.take(
        {card: int(size)}, {"program": "train.py"}, next_ticket(), waiting=state == "waits"
    )
print("ready", flush=True)
sys.stdin.read()
"""


def ledger_in(folder: Path) -> Path:
    """An empty ledger, made in ``folder``."""
    folder.mkdir(parents=True)
    folder.chmod(MODE)
    return folder


@contextmanager
def holder(
    folder: Path,
    *,
    card: str = CARD,
    namespace: int = 0,
    state: str = "lease",
    size_bytes: int = 512 * MIB,
) -> Iterator[Program]:
    """A program with a lease, or a place in the line; another ``namespace`` than ours if given."""
    arguments = [str(folder), card, str(namespace), state, str(size_bytes)]
    home = folder.parent
    process = Program([sys.executable, "-c", _HOLD, *arguments], home, clean_environment(home))
    try:
        assert process.read_line() == "ready"
        yield process
    finally:
        process.kill()
        process.communicate()


def leave_dead(folder: Path) -> None:
    """Leave the lease of a program that has ended."""
    with holder(folder):
        pass
