"""What each holder of a lease has taken of it, from the driver's list and /proc, as values."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconf.basics.processes import stat_of, user_name
from gpuconf.basics.units import MIB
from gpuconf.machine.cards.holders import Process
from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.machine.leases.folder import LedgerFolder
from gpuconf.machine.leases.lease import (
    GRANTED,
    WAITING,
    Lease,
    Owner,
    file_name,
    innermost_pid,
    parse,
    this_process,
)
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.machine.leases.reading import (
    CardLeases,
    describe_leases,
    note_of_use,
    read_with_leases,
    with_leases,
)
from tests.machine.leases.ledgers import IN_NAMESPACE, held, ledger_in, start_other

UUID = "GPU-0e8d35e3-0000-4000-8000-000000000000"
HERE = this_process()
READER = HERE._replace(pid=2**22 + 1)  # above every pid of Linux
ELSEWHERE = HERE._replace(namespace=HERE.namespace + 1)
GPU = Gpu(0, uuid=UUID, total_bytes=8000 * MIB, free_bytes=5000 * MIB, processes=())


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A child of this process and a child of that one, which both sleep."""
    command = ["sh", "-c", "sleep 600 & echo $!; wait"]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    try:
        yield child.pid, int(child.stdout.readline())
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def lease(
    owner: Owner = HERE, size_mib: int = 1000, *, folder: str = "/nowhere", ticket: int = 1
) -> Lease:
    """A lease of so many MiB; its file need not be there."""
    made = parse(folder, file_name(GRANTED, ticket, owner, size_mib * MIB))
    assert made is not None
    return made


def waits(owner: Owner, ticket: int) -> Lease:
    """A place in the line."""
    made = parse("/nowhere", file_name(WAITING, ticket, owner, MIB))
    assert made is not None
    return made


def uses(pid: int, size_mib: int | None) -> GpuProcess:
    """A process as the driver lists it."""
    return GpuProcess(pid, None if size_mib is None else size_mib * MIB)


def described(
    *granted: Lease,
    listed: tuple[GpuProcess, ...] | None,
    here: tuple[int, ...] | None = None,
    reader: Owner = READER,
) -> list[tuple[int, float | None]]:
    """Of each lease its holder's pid, and what is used of it in MiB."""
    found = describe_leases(granted, listed, here, reader)
    return [
        (each.pid, None if each.used_bytes is None else each.used_bytes / MIB) for each in found
    ]


def test_a_holders_own_memory_is_of_its_lease() -> None:
    """What strangers hold is not; a holder that is not listed uses nothing yet."""
    mine = lease()
    assert described(mine, listed=(uses(HERE.pid, 300),)) == [(HERE.pid, 300)]
    assert described(mine, listed=(uses(os.getppid(), 300), uses(1, 50))) == [(HERE.pid, 0)]
    assert described(mine, listed=()) == [(HERE.pid, 0)]
    (found,) = describe_leases((mine,), (uses(HERE.pid, 300),), None, READER)
    assert (found.pids, found.is_elsewhere) == ((HERE.pid,), False)
    assert found.promised_bytes == 700 * MIB


def test_a_holders_descendants_use_its_lease(family: tuple[int, int]) -> None:
    """However deep; all that they hold is summed up."""
    child, grandchild = family
    listed = (uses(HERE.pid, 10), uses(child, 200), uses(grandchild, 3000))
    assert described(lease(), listed=listed) == [(HERE.pid, 3210)]
    (found,) = describe_leases((lease(),), listed, None, READER)
    assert set(found.pids or ()) == {HERE.pid, child, grandchild}
    assert found.promised_bytes == 0


def test_a_holder_that_started_the_program_is_marked() -> None:
    """As for a worker of a parent that computes too: the message names it."""
    parent = HERE._replace(pid=os.getppid())
    marks = [
        describe_leases((lease(owner),), (), None, HERE)[0].is_parent
        for owner in (parent, HERE._replace(pid=1), HERE, ELSEWHERE._replace(pid=os.getppid()))
    ]
    assert marks == [True, True, False, False]


def test_the_nearest_holder_is_credited(family: tuple[int, int]) -> None:
    """A worker with a lease of its own uses that one, and so do its children."""
    child, grandchild = family
    leases = (lease(), lease(HERE._replace(pid=child), ticket=2))
    listed = (uses(HERE.pid, 10), uses(child, 200), uses(grandchild, 3000))
    assert described(*leases, listed=listed) == [(HERE.pid, 10), (child, 3200)]


def test_a_parents_memory_is_not_its_childs(family: tuple[int, int]) -> None:
    """Credit goes up to the holder, never down."""
    child, grandchild = family
    listed = (uses(HERE.pid, 10), uses(child, 200))
    owner = HERE._replace(pid=grandchild)
    assert described(lease(owner), listed=listed) == [(grandchild, 0)]


def test_the_readers_memory_is_not_of_its_parents_lease(family: tuple[int, int]) -> None:
    """Nor is its children's: the parent may still take all of its lease next to them."""
    child, grandchild = family
    listed = (uses(child, 200), uses(grandchild, 3000))
    for reader in (HERE._replace(pid=child), HERE._replace(pid=grandchild)):
        expected = 0 if reader.pid == child else 200  # of another child it is the parent's
        assert described(lease(), listed=listed, reader=reader) == [(HERE.pid, expected)]


def test_the_use_of_a_holder_in_another_namespace_is_unknown() -> None:
    """Its pid may be a stranger's here; the whole lease counts."""
    listed = (uses(HERE.pid, 300),)
    (found,) = describe_leases((lease(ELSEWHERE),), listed, None, READER)
    assert (found.pid, found.used_bytes, found.pids) == (HERE.pid, None, None)
    assert found.is_elsewhere
    assert found.promised_bytes == found.lease_bytes == 1000 * MIB
    both = described(lease(), lease(ELSEWHERE, ticket=2), listed=listed)
    assert both == [(HERE.pid, 300), (HERE.pid, None)]


@pytest.mark.needs_root
def test_a_holder_in_a_namespace_below_is_known_by_its_number_there(tmp_path: Path) -> None:
    """As the machine sees a container: the driver lists one number, the lease bears another."""
    with start_other(IN_NAMESPACE, tmp_path) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        try:
            program.stdout.readline()
            (found,) = Ledger(LedgerFolder(str(tmp_path))).leases("GPU-0")
            assert found.owner.namespace != HERE.namespace
            inside = next(
                pid
                for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if (stat := stat_of(pid)) and stat.parent == program.pid  # unshare's only child
            )
            assert inside != found.owner.pid == innermost_pid(inside)
            listed = (uses(inside, 3), uses(found.owner.pid, 5))
            (described_one,) = describe_leases((found,), listed, None, READER)
            assert (described_one.used_bytes, described_one.pids) == (3 * MIB, (inside,))
            assert described_one.is_elsewhere
        finally:
            program.kill()


@pytest.mark.parametrize("listed", [None, "without figures"])
def test_without_figures_of_processes_the_use_is_unknown(listed: str | None) -> None:
    """WSL2 lists no processes, or lists them without what they hold: unknown is never 0."""
    processes = None if listed is None else (uses(HERE.pid, None),)
    assert described(lease(), listed=processes) == [(HERE.pid, None)]


def test_one_unknown_figure_makes_the_sum_unknown(family: tuple[int, int]) -> None:
    """What the others of its family hold is known, and still no sum."""
    child, _ = family
    listed = (uses(HERE.pid, 10), uses(child, None))
    (found,) = describe_leases((lease(),), listed, None, READER)
    assert found.used_bytes is None
    assert set(found.pids or ()) == {HERE.pid, child}


def test_in_a_container_a_strangers_pid_may_be_the_holder(family: tuple[int, int]) -> None:
    """Where a listed pid is not known to be of this container, a holder without one of its own
    may be it; one that is listed itself is known."""
    child, _ = family
    leases = (lease(), lease(HERE._replace(pid=child), ticket=2))
    listed = (uses(HERE.pid, 300), uses(77777, 4000))
    seen = described(*leases, listed=listed, here=(HERE.pid,))
    assert seen == [(HERE.pid, 300), (child, None)]
    seen = described(*leases, listed=listed, here=(HERE.pid, 77777))
    assert seen == [(HERE.pid, 300), (child, 0)]


# --- the inventory ------------------------------------------------------------------------------


def seen(inventory: Inventory, found: dict[str, CardLeases]) -> Inventory:
    """With what a ledger says, all listed processes being of this namespace."""
    listed = [process for gpu in inventory.gpus for process in gpu.processes or ()]
    return with_leases(inventory, found, READER, {each.pid: Process(each.pid) for each in listed})


def test_nothing_leased_leaves_the_inventory_alone() -> None:
    """Neither does /proc have to be read for a ledger of empty folders."""
    inventory = Inventory((GPU,))
    assert seen(inventory, {}) is inventory
    assert seen(inventory, {UUID: CardLeases()}) is inventory


def test_each_card_has_its_own_leases() -> None:
    """By UUID; a GPU that the driver gives none, or that is not here, has none."""
    second = GPU._replace(index=1, uuid="GPU-1")
    nameless = GPU._replace(index=2, uuid=None)
    found = {
        UUID: CardLeases((lease(size_mib=100),)),
        "GPU-1": CardLeases((lease(size_mib=200), lease(ELSEWHERE, 300, ticket=2))),
        "GPU-gone": CardLeases((lease(size_mib=400),)),
    }
    gpus = seen(Inventory((GPU, second, nameless)), found).gpus
    sizes = [[each.lease_bytes // MIB for each in gpu.leases] for gpu in gpus]
    assert sizes == [[100], [200, 300], []]
    assert [gpu.promised_bytes // MIB for gpu in gpus] == [100, 500, 0]


def test_a_mig_instance_has_its_own_leases() -> None:
    """Also where the driver writes its UUID with slashes, which no folder's name has."""
    old = Gpu(0, uuid="MIG-GPU-8f6c/3/0", mig_ids=(3, 0), processes=(uses(HERE.pid, 50),))
    new = Gpu(0, uuid="MIG-1", mig_ids=(4, 0), processes=())
    cut = GPU._replace(mig_enabled=True, mig_instances=(old, new))
    found = {"MIG-GPU-8f6c_3_0": CardLeases((lease(),), (waits(HERE, 5),))}
    known = {HERE.pid: Process(HERE.pid)}
    (card,) = with_leases(Inventory((cut,)), found, READER, known).gpus
    assert (card.leases, card.ahead) == ((), 0)
    first, second = card.mig_instances
    assert [each.used_bytes for each in first.leases] == [50 * MIB]
    assert (first.ahead, second.leases, second.ahead) == (1, (), 0)


def test_programs_that_wait_are_counted_once() -> None:
    """A program may have had two places, while it took another one."""
    line = (waits(HERE, 1), waits(HERE, 2), waits(ELSEWHERE, 3))
    (gpu,) = seen(Inventory((GPU,)), {UUID: CardLeases(waiting=line)}).gpus
    assert (gpu.ahead, gpu.leases) == (2, ())


def test_a_lease_says_what_its_file_says(tmp_path: Path) -> None:
    """Program and profile by its text, which is made harmless; user and time by the file."""
    made = lease(folder=str(tmp_path))
    Path(made.path).write_text("program=tr\x1b[2Jain.py\nprofile=half-card\nnonsense\n")
    os.utime(made.path, (1000.0, 1000.0))
    (found,) = describe_leases((made,), (), None, READER)
    assert found.program == r"tr\x1b[2Jain.py"
    assert (found.profile, found.since) == ("half-card", 1000.0)
    assert (found.user, found.is_ours) == (user_name(os.getuid()), True)


def test_a_lease_that_has_just_been_released_still_counts() -> None:
    """It was alive when it was looked for; of its holder nothing is known any more."""
    (found,) = describe_leases((lease(),), (), None, READER)
    assert found == CardLease(HERE.pid, 1000 * MIB, 0, pids=())


def note(folder: Path, ticket: int, size_mib: int, others_mib: int | None) -> Lease:
    """A lease whose file notes what others used when it was granted."""
    made = lease(HERE._replace(pid=HERE.pid + ticket), size_mib, folder=str(folder), ticket=ticket)
    written = "" if others_mib is None else f"others.{folder.name}={others_mib * MIB}\n"
    Path(made.path).write_text(written, encoding="ascii")
    return made


@pytest.mark.parametrize(
    ("used_mib", "notes", "expected"),
    [
        (500, (500, 500), [0, 0]),
        (900, (500, 500), [400, 0]),  # the older one is taken to use it
        (2100, (500, 500), [1000, 600]),
        (9000, (500, 500), [1000, 1000]),  # a stranger grew: no holder uses more than its lease
        (1900, (500, 700), [1000, 200]),  # the newer note knows what the desktop has taken since
        (400, (500, 500), [0, 0]),  # the desktop has given some back
        (2100, (500, None), [1000, 600]),  # the newer lease is of an earlier gpuconf
        (2100, (None, None), [None, None]),  # unknown: the whole of each counts
    ],
)
@pytest.mark.parametrize("processes", [None, (), (GpuProcess(2**30, 5 * MIB),)])
def test_use_that_the_driver_does_not_attribute(
    used_mib: int,
    notes: tuple[int | None, ...],
    expected: list[int | None],
    processes: tuple[GpuProcess, ...] | None,
    tmp_path: Path,
) -> None:
    """It is what the GPU's use has grown by since the latest grant, whether the driver lists no
    process or one with a pid of another namespace; and it is marked as an estimate."""
    folder = tmp_path / UUID
    folder.mkdir()
    leases = tuple(note(folder, i, 1000, others) for i, others in enumerate(notes, 1))
    card = GPU._replace(used_bytes=used_mib * MIB, processes=processes)
    (gpu,) = with_leases(Inventory((card,)), {UUID: CardLeases(leases)}, READER).gpus
    assert [each.used_bytes and each.used_bytes // MIB for each in gpu.leases] == expected
    assert {each.is_estimate for each in gpu.leases} == {any(expected)}


def test_what_others_use_is_noted_with_a_lease() -> None:
    """The GPU's use without that of the holders, and never less than nothing."""
    leases = (CardLease(1, 1000 * MIB, 600 * MIB), CardLease(2, 1000 * MIB, None))
    cards = [
        GPU._replace(used_bytes=1000 * MIB, leases=leases),
        GPU._replace(uuid="GPU-1", used_bytes=100 * MIB, leases=leases),
        GPU._replace(uuid=None, used_bytes=100 * MIB),
        GPU._replace(uuid="GPU-2"),
    ]
    assert note_of_use(dict.fromkeys(cards, 5)) == {
        f"others.{UUID}": str(400 * MIB),
        f"most.{UUID}": "5",
        "others.GPU-1": "0",
        "most.GPU-1": "5",
    }


def test_growth_beyond_a_lease_is_not_taken_for_anothers(tmp_path: Path) -> None:
    """A holder that reserves less than it may take has grown: the other one's lease is whole."""
    folder = tmp_path / UUID
    folder.mkdir()
    whole = note(folder, 1, 4582, 1945)
    part = note(folder, 2, 1664, 1945)
    Path(part.path).write_text(f"others.{UUID}={1945 * MIB}\nmost.{UUID}={8524 * MIB}\n")
    card = GPU._replace(used_bytes=(1945 + 2950) * MIB, processes=None)
    (gpu,) = with_leases(Inventory((card,)), {UUID: CardLeases((whole, part))}, READER).gpus
    assert [each.used_bytes for each in gpu.leases] == [0, 2950 * MIB]
    assert gpu.promised_bytes == 4582 * MIB


def test_growth_of_memory_shared_with_the_host(tmp_path: Path) -> None:
    """A GB10 reports no memory, and in a container no use of its processes: the host's counts."""
    shared = GPU._replace(is_unified=True, used_bytes=None, processes=(uses(2**22 + 2, None),))
    idle = shared._replace(free_bytes=7000 * MIB)
    folder = tmp_path / UUID
    folder.mkdir()
    (others,) = (int(note_of_use({idle: 0})[f"others.{UUID}"]) // MIB,)
    assert others == 1000
    (gpu,) = with_leases(
        Inventory((shared,)), {UUID: CardLeases((note(folder, 1, 3000, others),))}, READER
    ).gpus
    assert [each.used_bytes for each in gpu.leases] == [2000 * MIB]
    assert gpu.promised_bytes == 1000 * MIB


def test_a_small_lease_may_have_grown_far(tmp_path: Path) -> None:
    """No way to have grown leaves more of the leases unused, so nobody's reserve is given away."""
    folder = tmp_path / UUID
    folder.mkdir()
    leases = [note(folder, 1, 1664, 1945), note(folder, 2, 704, 1945)]
    for lease, most in zip(leases, (8524, 3640), strict=True):
        Path(lease.path).write_text(f"others.{UUID}={1945 * MIB}\nmost.{UUID}={most * MIB}\n")
    card = GPU._replace(used_bytes=(1945 + 514 + 3394) * MIB, processes=None)
    (gpu,) = with_leases(Inventory((card,)), {UUID: CardLeases(tuple(leases))}, READER).gpus
    assert [each.used_bytes for each in gpu.leases] == [268 * MIB, 3640 * MIB]
    assert gpu.promised_bytes == (1664 - 268) * MIB  # the truth was 1664 - 514


# --- the order of the questions -----------------------------------------------------------------


def test_leases_are_looked_for_before_the_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder that ends in between is counted once too often, and never once too little.

    In the other order one that takes its memory in between would be counted nowhere.
    """
    monkeypatch.setenv("GPUCONF_LEASES", str(tmp_path / "leases"))
    with held(ledger_in(tmp_path / "leases"), {UUID: 1000 * MIB}) as holder:

        def read() -> Inventory:
            holder.kill()
            return Inventory((GPU,))

        (gpu,) = read_with_leases(read).gpus
    assert [each.lease_bytes for each in gpu.leases] == [1000 * MIB]
    assert read_with_leases(lambda: Inventory((GPU,))).gpus == (GPU,)


@pytest.mark.parametrize("gpus", [(), (GPU,)])
def test_a_ledger_that_cannot_be_had_is_of_interest_where_there_is_a_card(
    gpus: tuple[Gpu, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line for who debugs; without a GPU there is nothing to lease, and nothing is said."""
    monkeypatch.setenv("GPUCONF_LEASES", str(tmp_path / "file"))
    monkeypatch.setenv("GPUCONF_LOG", "debug")
    (tmp_path / "file").touch()
    read_with_leases(lambda: Inventory(gpus))
    assert capsys.readouterr().err.count("leases are not counted") == len(gpus)
