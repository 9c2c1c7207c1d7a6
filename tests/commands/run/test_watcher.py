"""The watcher of a run names who computed without a place, and nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuconf.commands.run.watcher import Watch
from gpuconf.machine.cards import Inventory
from gpuconf.machine.cards.inventory import Gpu, GpuProcess

CARD = "GPU-00000000-0000-0000-0000-000000000000"


def test_a_process_that_is_ending_is_not_accused(tmp_path: Path) -> None:
    """Its locks end before the driver forgets it; one that lives on without a place is named."""
    ended = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # a zombie, until it is waited for
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as alive:
        listed = tuple(GpuProcess(child.pid, 2**20) for child in (ended, alive))
        inventory = Inventory((Gpu(0, uuid=CARD, processes=listed),))
        watch = Watch(os.getpid(), {CARD: str(tmp_path / "lease.1.1.1.1.1")}, lambda: inventory)
        watch.look()
        (named,) = watch.escaped.values()
    ended.wait()
    assert str(named) == f"pid {alive.pid} (cat) computed on GPU 0 (1 MiB) without its limit"


def test_a_command_that_is_gone_is_not_accused(tmp_path: Path) -> None:
    """The driver may list it a moment longer than /proc, and its lease has ended with it."""
    gone = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    gone.wait()
    inventory = Inventory((Gpu(0, uuid=CARD, processes=(GpuProcess(gone.pid, 2**20),)),))
    watch = Watch(gone.pid, {CARD: str(tmp_path / "lease.1.1.1.1.1")}, lambda: inventory)
    watch.look()
    assert not watch.escaped


@pytest.mark.parametrize("name", ["leases", "caf\udce9"], ids=["UTF-8", "Latin-1"])
def test_a_daemon_is_named_by_its_environment(name: str, tmp_path: Path) -> None:
    """Its parents have ended, but it was started with the plan; another run's is not ours."""
    leases = [str(tmp_path / name / f"lease.{number}.1.1.1.1") for number in (1, 2)]
    environs = [{"GPUCONF_RUN": json.dumps({"leases": {CARD: path}})} for path in leases]
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environs[0]) as ours,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environs[1]) as another,
    ):
        for child in (ours, another):  # Popen returns before the kernel shows its environment
            while not Path(f"/proc/{child.pid}/environ").read_bytes():
                time.sleep(0.001)
        listed = tuple(GpuProcess(child.pid) for child in (ours, another))
        inventory = Inventory((Gpu(0, uuid=CARD, processes=listed),))
        watch = Watch(ours.pid + 2**22, {CARD: leases[0]}, lambda: inventory)  # below no such one
        watch.look()
        assert {pid for pid, _ in watch.escaped} == {ours.pid}
