"""Holdings as lines: what people read, in which order, and what is said of the unknown."""

from __future__ import annotations

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.ps.document import (
    GpuUsage,
    Holdings,
    LeaseBar,
    LedgerState,
    LinePlace,
    ProcessUsage,
    WaitingProcess,
)
from gpuconf.commands.ps.gathering import summed_up
from gpuconf.commands.ps.text import lines_of
from gpuconf.support.reporting.memory_bars import BarLayout

TODAY, YESTERDAY = "2026-11-22T14:02:33+00:00", "2026-11-21T09:30:00+00:00"
BAR = LeaseBar(GIB, 2 * GIB, 3 * GIB, 4 * GIB)
CARD = GpuUsage("0", 0, uuid="GPU-1", name="NVIDIA T4", bar=BAR, lists_processes=True)
OURS = ProcessUsage(7, "me", "train.py", "half-card", 5 * GIB, 2 * GIB, TODAY, is_ours=True)
ANNAS = ProcessUsage(8, "anna", "fit.py", "half-card", GIB, MIB, YESTERDAY, is_ours=False)
LEDGER = LedgerState("/run/gpuconf")


def text(holdings: Holdings, width: int | None = None) -> list[str]:
    """The lines below the bars."""
    lines = [line.text for line in lines_of(holdings, BarLayout(width))]
    return lines[lines.index("") + 1 :]


def holdings_of(*processes: ProcessUsage) -> Holdings:
    """One GPU with these on it."""
    return Holdings(TODAY, (CARD._replace(processes=processes),), ledger=LEDGER)


def test_a_row_for_each_process() -> None:
    """Since when: a time of today, a day, or a month; without a profile there is a hyphen."""
    alone = ProcessUsage(
        9, "me", "python3", used_bytes=GIB, since="2025-12-31T00:00:00", is_ours=True
    )
    assert text(holdings_of(OURS, ANNAS, alone)) == [
        "GPU  PID  USER  PROGRAM   PROFILE    RESERVED    IN USE  SINCE",
        "0      7  me    train.py  half-card  5120 MiB  2048 MiB  14:02",
        "0      8  anna  fit.py    half-card  1024 MiB     1 MiB  21 Nov",
        "0      9  me    python3   -                 -  1024 MiB  2025-12",
    ]


def test_a_limit_above_the_reservation_has_a_column() -> None:
    """Empty where all is reserved; the first to go where there is no room."""
    shared = OURS._replace(pid=6, most_bytes=7 * GIB)
    rows = holdings_of(shared, OURS._replace(most_bytes=5 * GIB))
    head, above, equal = text(rows)
    assert "  RESERVED   AT MOST    IN USE  " in head
    assert "  5120 MiB  7168 MiB  2048 MiB  " in above
    assert "  5120 MiB            2048 MiB  " in equal
    assert "AT MOST" not in text(rows, 70)[0]


def test_who_is_busy_has_a_column_where_the_driver_says_so() -> None:
    """For a GPU and for a process; an unknown one is empty, and 0 is not unknown."""
    rows = holdings_of(OURS._replace(busy_percent=37), ANNAS._replace(busy_percent=0))
    head, ours, annas = text(rows)
    assert "   IN USE  BUSY  SINCE" in head
    assert " 2048 MiB  37 %  14:02" in ours
    assert "    1 MiB   0 %  21 Nov" in annas
    busy = rows._replace(cards=(rows.cards[0]._replace(busy_percent=5), CARD))
    lines = [line.text for line in lines_of(busy, BarLayout(120))]
    assert [line[-8:] for line in lines[:2]] == ["    BUSY", "     5 %"]
    assert lines[2].endswith("    4096")
    assert "free 4096, busy 5 %" in "\n".join(each.text for each in lines_of(busy, BarLayout(50)))


def test_others_are_summed_up() -> None:
    """By user; a process whose owner is not known is nobody's, and what is unknown has no sum."""
    bens = ANNAS._replace(pid=9, user="ben", lease_bytes=None, used_bytes=None)
    stranger = ProcessUsage(10, used_bytes=GIB)
    holdings = summed_up(holdings_of(OURS, ANNAS, ANNAS._replace(pid=12), bens, stranger))
    assert text(holdings) == [
        "GPU  PID  USER     PROGRAM      PROFILE    RESERVED    IN USE  SINCE",
        "0      7  me       train.py     half-card  5120 MiB  2048 MiB  14:02",
        "0         anna     2 processes             2048 MiB     2 MiB",
        "0         ben      1 process                      -   unknown",
        "0         unknown  1 process                      -  1024 MiB",
        "",
        "memory in use unknown (not reported under WSL2 or in containers): the bar counts it under "
        "OTHERS",
        "`gpuconf ps --all-users` lists each process of other users",
    ]
    assert summed_up(holdings_of(OURS)) == holdings_of(OURS)


def test_memory_that_no_listed_process_holds() -> None:
    """A GPU that is full of it is not called empty; what a driver itself takes does not count."""
    full = CARD._replace(bar=LeaseBar(7 * GIB, 0, 0, GIB), unlisted_bytes=7 * GIB)
    (line,) = text(holdings_of()._replace(cards=(full,)))[:1]
    assert "the driver lists no process, but 7168 MiB are in use" in line


def test_an_estimated_use_is_marked() -> None:
    """A tilde, and one line that explains it; not the line for an unknown use."""
    lines = text(holdings_of(OURS._replace(is_estimate=True)))
    assert "  ~2048 MiB  " in lines[1]
    assert lines[-1].startswith("~ estimated from how the GPU's use has grown")
    assert not any("unknown" in line for line in lines)


def test_an_unknown_use_is_said_to_count_where_it_does() -> None:
    """With the reservation, if there is one; several estimated uses are one sum."""
    silent = OURS._replace(used_bytes=None)
    whole = ": the bar counts it under OTHERS, and the whole reservation under UNUSED"
    assert text(holdings_of(silent))[-1].endswith(whole)
    assert "reservation" not in text(holdings_of(silent._replace(lease_bytes=None)))[-1]
    undrawn = CARD._replace(bar=None, processes=(silent,))
    assert text(Holdings(TODAY, (undrawn,), ledger=LEDGER))[-1].endswith("or in containers)")
    both = CARD._replace(processes=(silent._replace(is_estimate=True),) * 2, estimated_bytes=GIB)
    lines = [line.text for line in lines_of(Holdings(TODAY, (both,), ledger=LEDGER), BarLayout())]
    row = "0      7  me    train.py  half-card  5120 MiB  unknown  14:02"
    assert lines[lines.index("") + 2 :] == [row] * 2
    assert any("use about 1024 MiB together; the driver does not report" in line for line in lines)


def test_who_waits_for_one_of_two_cards_is_one_row() -> None:
    """With its place in each line."""
    places = (LinePlace("0", "GPU-1", 1, GIB), LinePlace("1", "GPU-2", 2, GIB))
    waits = WaitingProcess(7, "anna", "x.py", "half-card", TODAY, False, True, places)
    empty = CARD._replace(bar=LeaseBar(300 * MIB, 0, 0, 9 * GIB), unlisted_bytes=300 * MIB)
    lines = text(holdings_of()._replace(cards=(empty,), waiting=(waits,)))
    assert lines[:5] == [
        "no process uses memory or a lease",
        "",
        "waiting in the queue",
        "GPU  PLACE  PID  USER  PROGRAM  PROFILE    AT LEAST  SINCE",
        "0,1    1,2   7*  anna  x.py     half-card  1024 MiB  14:02",
    ]
    assert lines[6].startswith("* in another pid namespace")


def test_a_long_name_does_not_push_the_figures_out() -> None:
    """In 60 columns names are cut, and the least important columns go."""
    long = OURS._replace(program="a-training-script-with-a-long-name.py", pid=1234567)
    lines = text(holdings_of(long), 60)
    assert lines[1] == "0    1234567  me    a-training-s…  5120 MiB  2048 MiB  14:02"
    assert all(len(line) <= 60 for line in lines)


def test_no_card_and_no_ledger() -> None:
    """One line each."""
    holdings = Holdings(TODAY, problem="no driver", ledger=LedgerState(problem="no lease yet"))
    lines = [line.text for line in lines_of(holdings, BarLayout())]
    assert lines == ["no driver", "", "no lease yet"]
    assert lines_of(Holdings(TODAY), BarLayout())[0].text == "no NVIDIA GPU here"


def test_a_ledger_of_this_container() -> None:
    """Said, since others' leases are not seen; over more than one line, none is indented."""
    private = holdings_of()._replace(ledger=LedgerState("/dev/shm/gpuconf", is_private=True))
    lines = text(private, 70)
    assert lines[-2] == "leases are shared only within this container: /dev/shm/gpuconf is its"
    assert lines[-1].startswith("own (`gpuconf docs clusters` shows how")
