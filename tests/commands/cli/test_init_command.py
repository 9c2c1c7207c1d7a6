"""``gpuconf init``: the profile that fits a machine, and the file that says so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.cli.init import propose, render
from gpuconf.machine.cards import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.profile import load_profile
from tests.commands.cli.commands import run_commands
from tests.machine.cards import standin
from tests.programs.processes import Nvml

pytestmark = pytest.mark.slow  # waits for programs

BIG = Gpu(0, uuid="GPU-1", name="big", total_bytes=11 * GIB, used_bytes=0, processes=())
TRAINING = GpuProcess(7, GIB, "python3")
DESKTOP = GpuProcess(8, GIB, "Xorg", "graphics")
LEASE = CardLease(9, 2 * GIB, 0)
DARK = BIG._replace(total_bytes=None, used_bytes=None, processes=None)


@pytest.mark.parametrize(
    ("gpus", "extends", "because"),
    [
        ((BIG,), "dedicated", "no display and no other program"),
        ((BIG._replace(display_active=True),), "shared-desktop", "drives a display"),
        ((BIG._replace(processes=(DESKTOP,)),), "shared-desktop", "drives a display"),
        ((BIG._replace(processes=(TRAINING,)),), "half-card", "other programs use memory"),
        ((BIG._replace(leases=(LEASE,)),), "half-card", "other programs use memory"),
        ((BIG, BIG._replace(display_active=True)), "shared-desktop", "drives a display"),
        ((BIG._replace(total_bytes=4 * GIB, display_active=True),), "small-laptop", "4096 MiB"),
        ((BIG._replace(processes=None),), "dedicated", "no display"),
        ((BIG._replace(processes=None, used_bytes=2 * GIB),), "shared-desktop", "2048 MiB are in"),
        ((DARK,), "shared-desktop", "no memory figures"),
        ((), "cpu-only", "finds no GPU"),
    ],
)
def test_what_fits(gpus: tuple[Gpu, ...], extends: str, because: str, tmp_path: Path) -> None:
    """A profile for each kind of machine, with the reason, in a file that loads."""
    inventory = Inventory(gpus)
    proposal = propose(inventory)
    assert proposal.extends == extends
    assert because in proposal.because
    _check_text(render(proposal, inventory), tmp_path)


def test_an_unknown_machine_gets_the_cautious_profile(tmp_path: Path) -> None:
    """Without NVML nothing is claimed about the machine."""
    inventory = Inventory(problem="no driver is installed here")
    assert propose(inventory).extends == "shared-desktop"
    text = render(propose(inventory), inventory)
    assert "# Seen here: no driver is installed here" in text
    _check_text(text, tmp_path)


def _check_text(text: str, folder: Path) -> None:
    """The text loads as it is, and with each commented rule taken in, alone and all together."""
    file = folder / "gpuconf.yaml"
    lines = text.splitlines()
    keys = ("gpus: {", "memory_limit: ", "keep_free: ", "context: ", "lease: ", "on_shortage: ")
    rules = [
        i for i, line in enumerate(lines) if line.lstrip().startswith(tuple(f"# {k}" for k in keys))
    ]
    assert len(rules) == len(keys)
    for chosen in [[], *([i] for i in rules), rules]:
        changed = [
            line.replace("# ", "", 1) if i in chosen else line for i, line in enumerate(lines)
        ]
        file.write_text("\n".join(changed) + "\n")
        limit = load_profile(str(file), environ={}).memory.memory_limit
        assert (limit is not None) == any("memory_limit" in lines[i] for i in chosen)


def test_the_file_is_written_and_used(tmp_path: Path, nvml: Nvml) -> None:
    """`gpuconf plan` then uses it; a second init leaves it alone unless forced."""
    machine = nvml("desktop")
    wrote, checked, planned, again = run_commands(
        tmp_path,
        ["init"],
        ["profiles", "check", "project"],
        ["plan", "--json"],
        ["init"],
        environ=machine,
    )
    assert (wrote.code, wrote.err) == (0, "")
    assert "wrote gpuconf.yaml: extends shared-desktop, because a GPU drives a display" in wrote.out
    assert "`gpuconf plan`" in wrote.out
    assert checked.code == 0
    assert planned.document["profile"] == "project"
    assert planned.document["source"] == str(tmp_path / "gpuconf.yaml")
    assert planned.document["gpus"][0]["limit_bytes"] == (9016 - 512 - 640) * MIB
    assert again.code == 1
    assert "already exists and was not overwritten" in again.err
    assert "--force" in again.err
    (tmp_path / "gpuconf.yaml").write_text("gpus: none\n")
    (forced,) = run_commands(tmp_path, ["init", "--force"], environ=machine)
    assert forced.code == 0
    assert "extends: shared-desktop" in (tmp_path / "gpuconf.yaml").read_text()
    assert sorted(os.listdir(tmp_path)) == ["gpuconf.yaml", "program.py"]


def test_building_on_a_profile_of_ones_own(tmp_path: Path, nvml: Nvml) -> None:
    """--extends takes names and paths, also odd ones, and paths are as seen from the new file."""
    (tmp_path / "team: a #1.yaml").write_text("memory: {memory_limit: 3GiB}\n")
    (tmp_path / "below").mkdir()
    name = "team: a #1.yaml"
    here, below, named, unknown, bad, worse = run_commands(
        tmp_path,
        ["init", "--extends", name],
        ["init", "--extends", f"./{name}", "--output", "below/gpuconf.yaml"],
        ["init", "--extends", "notebook", "--output", "other.yaml"],
        ["init", "--extends", "notebok", "--output", "never.yaml"],
        ["init", "--output", "missing/gpuconf.yaml"],
        ["init", "--output", "other.yaml/gpuconf.yaml"],
        environ=nvml("two_cards"),
    )
    assert [done.code for done in (here, below, named, unknown, bad, worse)] == [0, 0, 0, 2, 1, 1]
    for file in ("gpuconf.yaml", "below/gpuconf.yaml"):
        limit = load_profile(str(tmp_path / file), environ={}).memory.memory_limit
        assert limit is not None
        assert limit.size_bytes == 3 * GIB
    assert (
        "extends: notebook    # because --extends was given"
        in (tmp_path / "other.yaml").read_text()
    )
    assert "notebook" in unknown.err
    assert "missing/gpuconf.yaml cannot be written: No such file or directory" in bad.err
    assert "Not a directory" in worse.err
    assert not [name for name in os.listdir(tmp_path) if "tmp" in name or "never" in name]


def test_a_file_does_not_become_its_own_parent(tmp_path: Path, nvml: Nvml) -> None:
    """--force with a parent that is, links to, or builds on the file: refused, the file stays."""
    text = "memory: {memory_limit: 3GiB}\n"
    (tmp_path / "gpuconf.yaml").write_text(text)
    (tmp_path / "link.yaml").symlink_to("gpuconf.yaml")
    (tmp_path / "child.yaml").write_text("extends: ./gpuconf.yaml\n")
    parents = (
        "project",
        "gpuconf.yaml",
        "./link.yaml",
        str(tmp_path / "gpuconf.yaml"),
        "./child.yaml",
    )
    refused = run_commands(
        tmp_path,
        *(["init", "--extends", parent, "--force"] for parent in parents),
        ["init", "--extends", "./gpuconf.yaml", "--output", "link.yaml", "--force"],
        environ=nvml("two_cards"),
    )
    for done in refused:
        assert done.code == 2
        assert "itself, which would be overwritten" in done.err
        assert "hint:" in done.err
    assert (tmp_path / "gpuconf.yaml").read_text() == text
    assert (tmp_path / "link.yaml").is_symlink()


def test_a_missing_folder_gets_the_command_that_makes_it(tmp_path: Path, nvml: Nvml) -> None:
    """The hint can be pasted, for odd names too; after it the same command works."""
    (done,) = run_commands(
        tmp_path, ["init", "--output", "a b/c/x.yaml"], environ=nvml("two_cards")
    )
    assert done.code == 1
    command = done.err.partition("hint: ")[2].strip()
    assert command == "mkdir -p 'a b/c'"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    (done,) = run_commands(
        tmp_path, ["init", "--output", "a b/c/x.yaml"], environ=nvml("two_cards")
    )
    assert (done.code, done.err) == (0, "")


def test_what_is_written_was_seen_or_is_the_parents(tmp_path: Path) -> None:
    """A rule active next to ``extends`` would look computed: none is, on any machine."""
    for gpus in ((BIG,), (BIG._replace(display_active=True),), (DARK,), ()):
        text = render(propose(Inventory(gpus)), Inventory(gpus))
        assert "\n  keep_free" not in text
        file = tmp_path / "written.yaml"
        file.write_text(text)
        parent = load_profile(propose(Inventory(gpus)).extends, environ={})
        assert load_profile(str(file), environ={}).memory == parent.memory


def test_a_path_that_cannot_be_replaced(tmp_path: Path, nvml: Nvml) -> None:
    """A folder of that name stays, with --force too, and no half file stays next to it."""
    (tmp_path / "gpuconf.yaml").mkdir()
    (tmp_path / "gpuconf.yaml" / "kept").touch()
    (done,) = run_commands(tmp_path, ["init", "--force"], environ=nvml(standin.Machine()))
    assert done.code == 1
    assert "cannot be written" in done.err
    assert sorted(os.listdir(tmp_path)) == ["gpuconf.yaml", "program.py"]
