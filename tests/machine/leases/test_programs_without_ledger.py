"""A ledger full, closed, read-only or huge: each program gets its plan, and says so once."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.mutex import Mutex
from tests.machine.leases.ledgers import as_user, files, held, ledger_in, readable_by_all
from tests.machine.leases.line import ONE_CARD, START
from tests.machine.leases.processes import Child, child
from tests.programs.processes import Nvml, run

pytestmark = pytest.mark.slow  # starts many programs

_PROGRAM = """
from gpuconf.machine.leases.mutex import Mutex
Mutex.__init__.__kwdefaults__["longest_wait_s"] = {longest_wait_s}
made = plan(OwnLeases(), profile({mib}))
print(sizes(made), *made.notes, sep="\\n")
"""


def planned(
    folder: Path, environ: dict[str, str], mib: int, *before: str, longest_wait_s: float = 60.0
) -> list[str]:
    """What a program prints that plans for ``mib``: its leases, and each note."""
    script = folder / "program.py"
    script.write_text(START + _PROGRAM.format(mib=mib, longest_wait_s=longest_wait_s))
    done = run([*before, sys.executable, "-W", "error", str(script)], folder, environ=environ)
    done.check_returncode()
    return done.stdout.splitlines()


def in_mounts(command: str) -> list[str]:
    """What comes before a program that has mounts of its own, made by ``command``."""
    return ["unshare", "--mount", "sh", "-c", f'{command} && exec "$@"', "sh"]


@pytest.fixture
def made_ledger(tmp_path: Path) -> Path:
    """A ledger where programs of this test find it, ready to be mounted over."""
    return ledger_in(tmp_path / "leases")


@pytest.mark.slow
def test_a_mutex_that_another_program_keeps(tmp_path: Path, made_ledger: Path, nvml: Nvml) -> None:
    """As one that hangs in the driver: the program waits its time, says so, and continues."""

    def keep(self: Child) -> None:
        with Mutex(str(made_ledger)).held():
            self.say("held")
            self.wait()

    with child(keep) as keeper:
        keeper.expect("held")
        got, *notes = planned(tmp_path, nvml(ONE_CARD), 1024, longest_wait_s=1.0)
        assert got == "[1024]"
        assert len(notes) == 1
        assert "mutex has been locked for 1 s" in notes[0]
    assert files(made_ledger) == []


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("options", "taken"), [("nr_inodes=2", False), ("nr_inodes=3", False), ("size=4k", True)]
)
def test_a_full_file_system(
    options: str, taken: bool, tmp_path: Path, made_ledger: Path, nvml: Nvml
) -> None:
    """Without a file there is no lease; where only its text finds no room there is one."""
    mount = f"mount -t tmpfs -o mode=1777,{options} none {made_ledger}"
    if taken:
        mount += f" && head -c 4096 /dev/zero > {made_ledger}/full"
    got, *notes = planned(tmp_path, nvml(ONE_CARD), 1024, *in_mounts(mount))
    assert got == "[1024]"
    assert ["No space left on device" in note for note in notes] == [True] * (not taken)


@pytest.mark.needs_root
@pytest.mark.parametrize("mutex", [True, False])
def test_a_read_only_mount(mutex: bool, tmp_path: Path, made_ledger: Path, nvml: Nvml) -> None:
    """Others' leases count, none is taken, and one line says so."""
    uuid = str(ONE_CARD.cards[0].uuid)
    with held(made_ledger, {uuid: 6 << 30}):
        if not mutex:
            (made_ledger / "mutex").unlink()
        mount = f"mount --bind -o ro {made_ledger} {made_ledger}"
        fits, *notes = planned(tmp_path, nvml(ONE_CARD), 2048, *in_mounts(mount))
        assert fits == "[2048]"
        assert len(notes) == 1
        assert "could not reserve GPU memory" in notes[0]
        assert len(files(made_ledger)) == 1
        with pytest.raises(subprocess.CalledProcessError) as error:
            planned(tmp_path, nvml(ONE_CARD), 2049, *in_mounts(mount))
        assert "of which other processes have reserved 6144 MiB" in error.value.stderr


@pytest.mark.needs_root
def test_a_cards_folder_closed_by_another_user(
    tmp_path: Path, made_ledger: Path, nvml: Nvml
) -> None:
    """One that has closed a GPU's folder to all others keeps nobody from the GPU."""
    environ = nvml(ONE_CARD)
    readable_by_all(Path(environ["STANDIN_NVML"]))
    readable_by_all(made_ledger)
    (made_ledger / ONE_CARD.cards[0].uuid).mkdir(mode=0o700)
    tmp_path.chmod(0o777)  # for its profile
    got, *notes = planned(tmp_path, environ, 1024, *as_user())
    assert got == "[1024]"
    assert len(notes) == 1
    assert "Permission denied" in notes[0]


def test_tickets_are_of_the_clock_that_nobody_sets() -> None:
    """Of the time since the machine's start, with its sleep: who comes later has a higher one."""
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= next_ticket() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
