"""Temporary card files, and the removal of those whose owner was killed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuconf.errors import GpuconfError
from gpuconf.simcard.card import Card, CardSpec, create_card

# In memory if possible: the file has a few hundred kilobytes, and every allocation uses its lock.
# It does not contain the device memory.
_SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(r"gpuconf-simcard-([0-9]+)-.+")


@contextmanager
def simulated_card(spec: CardSpec) -> Iterator[Card]:
    """Create a card file in a new temporary folder; remove it on exit.

    Raises UsageError for an impossible spec, and BackendError if the file cannot be written.
    """
    place = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    _sweep(place)
    folder = tempfile.mkdtemp(prefix=f"gpuconf-simcard-{os.getpid()}-", dir=place)
    try:
        yield create_card(os.path.join(folder, "card"), spec)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    """Remove unused GPUs left behind by killed processes of this user."""
    for folder in place.glob("gpuconf-simcard-*"):
        name = _NAME.fullmatch(folder.name)
        with suppress(OSError, GpuconfError):
            if name is not None and not _is_alive(int(name[1])) and not _is_in_use(folder):
                shutil.rmtree(folder)


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _is_in_use(folder: Path) -> bool:
    """Whether a process uses the GPU in that folder, or another user owns the folder."""
    if folder.stat().st_uid != os.getuid():
        return True
    card = Card(folder / "card")
    return any(card.processes(index) for index in range(card.describe().count))
