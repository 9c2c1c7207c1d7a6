"""Children that hold leases, and what others see of a ledger."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuconf.machine.leases.folder import MODE, LedgerFolder
from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.ledger import Ledger
from tests.machine.leases.processes import Child, child

CARD, OTHER_CARD = "GPU-0", "GPU-1"
NOTE = {"program": "train.py", "profile": "half-card"}


def acting(root: Path, act: Callable[[Ledger], object]) -> Callable[[Child], None]:
    """A child that does something with a ledger, says its result, and stays until it may go."""

    def act_and_wait(self: Child) -> None:
        self.say(act(Ledger(LedgerFolder(str(root)))))
        self.wait()

    return act_and_wait


def ledger_in(folder: Path) -> Path:
    """An empty ledger, made in ``folder``."""
    folder.mkdir(parents=True)
    folder.chmod(MODE)
    return folder


def holding(
    root: Path, sizes: dict[str, int], *, waits: bool = False, namespace: int = 0
) -> Callable[[Child], None]:
    """A child that takes a lease, or a place in the line, and keeps it until it may go.

    It is in another ``namespace`` than ours if given.
    """

    def act(own: Ledger) -> str:
        if namespace:
            own.owner = own.owner._replace(namespace=namespace)
        with own.mutex.held():
            own.take(sizes, NOTE, next_ticket(), waiting=waits)
        return "holds"

    return acting(root, act)


@contextmanager
def held(root: Path, sizes: dict[str, int], **options: Any) -> Iterator[Child]:
    """Such a child, once it has what it wants."""
    with child(holding(root, sizes, **options)) as holder:
        holder.expect("holds")
        yield holder


def sizes(ledger: Ledger, card: str = CARD) -> list[int]:
    """The sizes of the leases of others, in order."""
    return sorted(each.size_bytes for each in ledger.leases(card))


def files(root: Path) -> list[str]:
    """All files of the GPUs' folders."""
    return sorted(str(path.relative_to(root)) for path in root.glob("*/*"))


def readable_by_all(folder: Path) -> None:
    """Let every user pass through the test's own folders."""
    for each in folder.parents:
        if each.stat().st_uid == os.getuid() and not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o055)


_LIVES = """
import os, sys
from gpuconf.machine.leases.folder import LedgerFolder
from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.ledger import Ledger
other = Ledger(LedgerFolder(sys.argv[1]))
with other.mutex.held():
    seen = [each.size_bytes for each in other.leases("GPU-0", sweep=True)]
    other.take({"GPU-0": 7}, {}, next_ticket())
print(seen, flush=True)
sys.stdin.readline()
"""


def start_other(command: list[str], root: Path) -> subprocess.Popen[str]:
    """Start that program behind ``command``; it holds 7 until it gets a line."""
    return subprocess.Popen(
        [*command, sys.executable, "-c", _LIVES, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


IN_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def as_user() -> list[str]:
    """The command that starts a program as another user, if that one can start this Python."""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    tried = subprocess.run([*command, sys.executable, "-c", ""], check=False, capture_output=True)
    if tried.returncode:
        pytest.skip("needs root, and a Python that other users can start")
    return command
