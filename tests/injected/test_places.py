"""Places on a GPU: one for each process that computes, on every Python found."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from gpuconf.machine.leases.files import is_locked
from tests.injected.injected_runs import PACKAGE, pythons
from tests.programs.processes import Start, run_with

pytestmark = pytest.mark.slow  # starts and waits for many programs

PYTHONS = pythons()
every_python = pytest.mark.parametrize("version", PYTHONS)

PRELUDE = f"""
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, {str(PACKAGE / "injected")!r})
import places

def attempt(*uuids, **more):
    try:
        environ = more.pop("environ", None)
        used = uuids if environ is None else places.card_of_rank(uuids, environ)
        places.take_places(leases, more.pop("processes", 1), used)
    except places.NoPlaceError as error:
        return str(error).splitlines()[1].strip()
    return "taken"

def in_child(call):
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(there, call().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(here, 999).decode()

def show(*values):
    sys.stdout.write(" ".join(map(str, values)) + "\\n")
leases = dict(zip("ab", sys.argv[1:]))
"""


def run(version: str, program: str, *leases: Path) -> list[str]:
    """The lines that the program shows."""
    done = run_with([PYTHONS[version], "-c", PRELUDE + dedent(program), *map(str, leases)], {})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture
def leases(tmp_path: Path) -> tuple[Path, Path]:
    """The files of leases on two GPUs."""
    made = tmp_path / "lease.a", tmp_path / "lease.b"
    for file in made:
        file.touch()
    return made


@every_python
def test_each_process_has_one_place(version: str, leases: tuple[Path, Path]) -> None:
    """A second call takes no second place; a forked child takes its own, if there is one."""
    program = """
    show(attempt("a"), attempt("a"))
    show(in_child(lambda: attempt("a")))
    show(in_child(lambda: attempt("a", processes=2)))
    show(attempt("a", "c"))
    """
    two = "hint: `gpuconf run --processes 2 -- ...` splits the memory between 2"
    assert run(version, program, *leases) == ["taken taken", two, "taken", "taken"]


@every_python
def test_a_refused_process_keeps_no_place(version: str, leases: tuple[Path, Path]) -> None:
    """Where the second of two GPUs is full, the place on the first is given back."""
    program = """
    show(attempt("b"))
    show(in_child(lambda: attempt("a", "b")[:4] + in_child(lambda: attempt("a"))))
    """
    assert run(version, program, *leases) == ["taken", "hinttaken"]


@every_python
def test_a_local_rank_counts_on_one_card(version: str, leases: tuple[Path, Path]) -> None:
    """Two ranks on two GPUs do not meet; a third is on the first GPU again."""
    program = """
    ranks = [{"LOCAL_RANK": str(rank)} for rank in range(3)]
    show(attempt("a", "b", environ=ranks[0]))
    show(in_child(lambda: attempt("a", "b", environ=ranks[1])))
    show(in_child(lambda: attempt("a", "b", environ=ranks[2]))[:4])
    show(in_child(lambda: attempt("a", "b", environ={"LOCAL_RANK": ""}))[:4])
    show(in_child(lambda: attempt("b", environ={"SLURM_LOCALID": "0"})))
    """
    assert run(version, program, *leases) == ["taken", "taken", "hint", "hint", "taken"]


@every_python
def test_a_refusal_names_the_card_and_the_way_out(version: str, leases: tuple[Path, Path]) -> None:
    """The GPU as people know it; in a shell, that it must be left first."""
    program = """
    def refusal():
        try:
            places.take_places(leases, 1, ["a"], names={"a": "GPU 3"})
        except places.NoPlaceError as error:
            return str(error)
    show(attempt("a"))
    show(in_child(refusal))
    os.environ["GPUCONF_SHELL"] = "half-card"
    show(in_child(refusal))
    """
    taken, refused, hint, again, in_shell = run(version, program, *leases)
    assert taken == "taken"
    assert refused == again
    assert refused.startswith("GPU 3 already has the 1 process this run was planned for")
    assert "`gpuconf run --processes 2 -- ...`" in hint
    assert "leave this shell (exit); `gpuconf shell --processes 2`" in in_shell


@every_python
def test_the_holders_own_lock_stays(version: str, leases: tuple[Path, Path]) -> None:
    """In the process that holds the lease nothing is opened and closed, which would drop it."""
    program = """
    import fcntl
    held = os.open(leases["a"], os.O_RDWR)
    fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    before = len(os.listdir("/proc/self/fd"))
    show(attempt("a"), len(os.listdir("/proc/self/fd")) - before)

    def others_lock():
        other = os.open(leases["a"], os.O_RDWR)
        try:
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except (IOError, OSError):
            return "held"
        return "dropped"
    show(in_child(others_lock))
    """
    assert run(version, program, *leases) == ["taken 0", "held"]


@every_python
def test_a_place_survives_exec_of_another_python(version: str, leases: tuple[Path, Path]) -> None:
    """A process that becomes another program, and takes its place again, is still one process."""
    program = """
    if "again" not in os.environ:
        attempt("a")
        os.environ["again"] = "1"
        os.execv(sys.executable, [sys.executable, "-c", CODE] + sys.argv[1:])
    show(attempt("a", processes=2))
    show(in_child(lambda: attempt("a", processes=2)))
    """
    code = PRELUDE + dedent(program)
    found = run(
        version,
        f"CODE = {code!r}\nCODE = 'CODE = ' + repr(CODE) + CODE\n" + dedent(program),
        *leases,
    )
    assert found == ["taken", "taken"]


def test_a_place_keeps_the_lease(leases: tuple[Path, Path], start: Start) -> None:
    """While a process has a place the lease lives, whoever took it; afterwards it does not."""
    program = PRELUDE + "attempt('a'); show('taken'); sys.stdout.flush(); sys.stdin.read()"
    child = start([sys.executable, "-c", program, *map(str, leases)], os.environ)
    assert child.read_line() == "taken"
    assert [is_locked(str(lease)) for lease in leases] == [True, False]
    child.communicate("")
    assert not is_locked(str(leases[0]))


@every_python
def test_a_lease_that_has_gone(version: str, leases: tuple[Path, Path]) -> None:
    """Says what to do; so does one that this user may not write."""
    leases[0].unlink()
    (line,) = run(version, 'show(attempt("a"))', *leases)
    assert line == "hint: restart the whole program: `gpuconf run -- ...`"
