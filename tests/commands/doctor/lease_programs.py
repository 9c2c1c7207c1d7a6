"""Programs that hold leases, and the mutex, in a ledger of a test; each ends with its block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuconf.basics.units import MIB
from gpuconf.machine.leases.folder import MODE
from tests.programs.processes import clean_environment

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
) -> Iterator[subprocess.Popen[str]]:
    """A program with a lease, or a place in the line; another ``namespace`` than ours if given."""
    arguments = [str(folder), card, str(namespace), state, str(size_bytes)]
    with _running(_HOLD, folder, arguments) as process:
        yield process


@contextmanager
def _running(program: str, home: Path, arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=clean_environment(home.parent),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def leave_dead(folder: Path, count: int = 1) -> None:
    """Leave leases of so many programs that have ended."""
    for _ in range(count):
        with holder(folder):
            pass
