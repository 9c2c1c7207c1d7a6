"""A lease as the name of its file: what is written is read, and nothing else is."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.machine.leases.lease import (
    GRANTED,
    WAITING,
    Lease,
    Owner,
    file_name,
    folder_of,
    parse,
    this_process,
)
from tests.machine.leases.processes import fork

_NUMBERS = st.integers(0, 10**19 - 1)
OWNER = Owner(4026531836, 4711, 123456)


@given(st.sampled_from([GRANTED, WAITING]), _NUMBERS, st.tuples(*[_NUMBERS] * 3), _NUMBERS)
def test_what_is_written_is_read(
    state: str, ticket: int, owner: tuple[int, ...], size: int
) -> None:
    """Every name gives back its numbers."""
    name = file_name(state, ticket, Owner(*owner), size)
    expected = Lease("/led/card", name, state == WAITING, ticket, Owner(*owner), size)
    assert parse("/led/card", name) == expected
    assert expected.path == f"/led/card/{name}"


def test_further_fields_are_passed_over() -> None:
    """A later version may add some."""
    name = file_name(GRANTED, 7, OWNER, 100)
    later = parse("/f", f"{name}.more.9")
    assert later is not None
    assert later._replace(name=name) == parse("/f", name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "lease", "lease.", "mutex", ".new.1.2", ".lease.1.2.3.4.5"),
        *("lease.1.2.3.4", "lease.1.2.3.4.", "lease..2.3.4.5", "LEASE.1.2.3.4.5"),
        *("lease.1.2.3.4.-5", "lease.1.2.3.4.+5", "lease.1.2.3.4.5e3", "lease.1.2.3.4. 5"),
        *("lease.1.2.3.4.0x5", "lease.1.2.3.4.1_000", "lease.1.2.3.4.٥", "lease.1.2.3.4.²"),
        *("lease.1.2.3.4.\udcff", "lease.1.2.3.4.5\n", "granted.1.2.3.4.5"),
        f"lease.1.2.3.4.{'9' * 20}",
        f"lease.{'9' * 200}.2.3.4.5",
        f"lease{'.1' * 100}"[:5] + "." * 100,
    ],
)
def test_other_names_are_no_leases(name: str) -> None:
    """Nothing is guessed, and no number is too long to be read."""
    assert parse("/f", name) is None


@given(st.text())
def test_no_name_raises(name: str) -> None:
    """Whatever somebody calls a file."""
    found = parse("/f", f"lease.{name}")
    assert found is None or found.size_bytes >= 0


@pytest.mark.parametrize(
    ("uuid", "folder"),
    [
        ("GPU-6e8d35e3-0000-4000-8000-000000000000", "GPU-6e8d35e3-0000-4000-8000-000000000000"),
        ("MIG-GPU-6e8d35e3/1/0", "MIG-GPU-6e8d35e3_1_0"),
        ("../../etc", "______etc"),
        (".new.1", "_new_1"),
        ("\x1b[2J", "__2J"),
    ],
)
def test_a_cards_folder(uuid: str, folder: str) -> None:
    """A UUID is one name, and no way out of the ledger."""
    assert folder_of(uuid) == folder


def test_this_process() -> None:
    """A process is called as nothing else is; a forked child is another one."""
    here = this_process()
    assert here == this_process()
    assert here.pid == os.getpid()
    assert here.start > 0
    assert here.namespace == os.stat("/proc/self/ns/pid").st_ino
    pid = fork()
    if pid == 0:
        os._exit(int(this_process().pid == here.pid))
    assert os.waitpid(pid, 0)[1] == 0
