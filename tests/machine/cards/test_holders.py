"""Who holds a GPU: NVML's list and /proc, over trees of files and over real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.basics.state_note import StateNote, encode, this_process
from gpuconf.basics.terminal import printable
from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.cards import Gpu, GpuProcess, Inventory
from gpuconf.machine.cards.holders import Process, holders_of, read_processes
from tests.commands.doctor.doctor_trees import machine, process
from tests.machine.cards import standin
from tests.programs.processes import Nvml, run_python

NAME = "py\x1b[2J(x) y"


def test_a_name_from_proc_holds_no_control_characters(tmp_path: Path) -> None:
    """ESC in a process's name becomes visible; in a container the name is still recognized."""
    root = str(machine(tmp_path, **process(4242, NAME)))
    held = Inventory((Gpu(0, processes=(GpuProcess(4242, GIB, printable(NAME)),)),))
    for in_container in (False, True):
        found = read_processes(held, root=root, in_container=in_container)
        assert found[4242].name == r"py\x1b[2J(x) y"


def _held_by(pid: int, name: str | None) -> Inventory:
    return Inventory((Gpu(0, processes=(GpuProcess(pid, GIB, name),)),))


def test_a_process_by_its_files(tmp_path: Path) -> None:
    """Owner, state, parent and start, also with brackets and spaces in its name."""
    root = machine(tmp_path, **process(4242, "py (x) y", "T", ticks=500))
    found = read_processes(_held_by(4242, None), root=str(root))[4242]
    assert (found.name, found.state, found.parent) == ("py (x) y", "T", 1)
    assert found.started == 1700000000 + 500 / os.sysconf("SC_CLK_TCK")
    assert found.is_ours
    assert found.user


@pytest.mark.parametrize(
    ("name", "is_known"),
    [("python3", True), ("/usr/bin/python3 train.py", True), (None, True), ("Xorg", False)],
)
def test_a_stranger_of_the_same_number_is_left_out(
    name: str | None, is_known: bool, tmp_path: Path
) -> None:
    """In a container NVML's numbers are the host's; elsewhere a process has renamed itself."""
    root = str(machine(tmp_path, **process(4242, "python3")))
    inside = read_processes(_held_by(4242, name), root=root, in_container=True)
    assert (4242 in inside) == is_known
    assert 4242 in read_processes(_held_by(4242, name), root=root)


def test_the_largest_comes_first_and_strangers_are_kept(tmp_path: Path) -> None:
    """A process that /proc does not show is a holder anyway; unknown sizes come last."""
    root = str(machine(tmp_path, **process(7, "python3", ticks=500)))
    listed = (GpuProcess(9, None, "Xorg", "graphics"), GpuProcess(7, GIB), GpuProcess(8, 2 * GIB))
    gpu = Gpu(0, processes=listed)
    known = read_processes(Inventory((gpu,)), root=root)
    assert set(known) == {7}
    assert holders_of(gpu, known) == (
        (GpuProcess(8, 2 * GIB), Process(8)),
        (GpuProcess(7, GIB, "python3"), known[7]),
        (GpuProcess(9, None, "Xorg", "graphics"), Process(9)),
    )


def test_nobody_and_unknown_are_two_things() -> None:
    """An empty list of the driver is nobody; no list is unknown."""
    assert holders_of(Gpu(0, processes=()), {}) == ()
    assert holders_of(Gpu(0), {}) is None


@pytest.mark.parametrize(
    ("environ", "profile"),
    [
        ({"GPUCONF_PROFILE": "half-card"}, "half-card"),
        ({"GPUCONF_STATE": encode(StateNote(this_process(), profile="notebook"))}, "notebook"),
        ({}, None),
    ],
)
def test_the_profile_in_a_real_process(environ: dict[str, str], profile: str | None) -> None:
    """Named by its user, or in the note that gpuconf left in its parent."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = read_processes(_held_by(child.pid, None))[child.pid]
        child.communicate(b"\n")
    assert (found.profile, found.parent, found.is_ours) == (profile, os.getpid(), True)


def test_the_holders_of_a_card_as_the_driver_lists_them(tmp_path: Path, nvml: Nvml) -> None:
    """From NVML's answer to the owner and parent of a real process, in one go."""
    listed = (
        standin.Process(os.getpid(), "compute", GIB, "python3"),
        standin.Process(2**22 + 1, "graphics", 100 * MIB, "Xorg"),
    )
    card = standin.Card(
        standin.uuid(0), "A GPU", total=8 * GIB, reserved=0, used=2 * GIB, processes=listed
    )
    program = """
from gpuconf.machine.cards import read_inventory
from gpuconf.machine.cards.holders import holders_of, read_processes
inventory = read_inventory()
processes = read_processes(inventory)
for listed, known in holders_of(inventory.gpus[0], processes):
    print(listed.pid, listed.name, listed.used_bytes, listed.kind, known.parent, known.is_ours)
"""
    out = run_python(program, tmp_path, environ=nvml(standin.Machine((card,))))
    assert out.splitlines() == [
        f"{os.getpid()} python3 {GIB} compute {os.getppid()} True",
        f"{2**22 + 1} Xorg {100 * MIB} graphics None None",
    ]
