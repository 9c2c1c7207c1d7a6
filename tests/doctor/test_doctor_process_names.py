"""Names that processes give themselves: nothing in them commands the terminal of a reader."""

from __future__ import annotations

from pathlib import Path

from gpuconf.doctor.probes.processes import read_processes
from gpuconf.hardware import Gpu, GpuProcess, Inventory
from gpuconf.terminal import printable
from gpuconf.units import GIB
from tests.doctor.doctor_trees import machine, process

NAME = "py\x1b[2J(x) y"


def test_a_name_from_proc_holds_no_control_characters(tmp_path: Path) -> None:
    """ESC in a process's name becomes visible; in a container the name is still recognised."""
    root = str(machine(tmp_path, **process(4242, NAME)))
    held = Inventory((Gpu(0, processes=(GpuProcess(4242, GIB, printable(NAME)),)),))
    for in_container in (False, True):
        found = read_processes(held, root=root, in_container=in_container)
        assert found[4242].name == r"py\x1b[2J(x) y"
