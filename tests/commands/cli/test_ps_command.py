"""`gpuconf ps`: real leases on the simulated GPU, the stand-in NVML, and real terminals."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.leases.folder import LedgerFolder
from gpuconf.machine.leases.lease import Owner, next_ticket, this_process
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.simcard import Card, simulated_card
from tests.commands.cli.commands import gpuconf, schema
from tests.commands.ps import lease_holder
from tests.machine.cards import standin
from tests.machine.leases.ledgers import held, ledger_in
from tests.machine.leases.processes import Child, child
from tests.programs.card_clients import STORY, StartClient, wait_until
from tests.programs.processes import Nvml, Program, Start, clean_environment, run
from tests.programs.terminals import OnTerminal

pytestmark = pytest.mark.slow  # starts many programs

HALF = "memory: {per_process_gpu_memory_fraction: 0.5}\n"
WAITS = "memory: {memory_limit: 4GiB, at_least: 4GiB, on_shortage: {wait: forever}}\n"
TAKES_1500 = "cuda.enter(); cuda.allocate(1500 * MIB); print(flush=True); sys.stdin.read()"
SOMEBODY = 65534
Begin = Callable[..., Program]


@pytest.fixture
def hold(start: Start, tmp_path: Path) -> Begin:
    """Start a program with a profile's text and name, which takes so many MiB of its lease."""

    def hold_one(card: Card, profile: str, mib: int, name: str = "half") -> Program:
        path = tmp_path / f"{name}.yaml"
        path.write_text(profile)
        words = [sys.executable, lease_holder.__file__, str(path), str(mib)]
        child = start(words, clean_environment(tmp_path, card.environment({})))
        for word in ("planned", "taken") if profile != WAITS else ():
            assert child.read_line() == word, child.log
        return child

    return hold_one


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The ledger of programs whose home is the test's folder."""
    return ledger_in(tmp_path / "leases")


def shown(folder: Path, environ: dict[str, str], *options: str) -> dict[str, Any]:
    """The document of `gpuconf ps --json`, which is as its schema says."""
    done = run(gpuconf("ps", "--json", *options), folder, environ=environ)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(document, schema("ps"))
    return document


def test_three_programs_on_a_card(
    card: Card, hold: Begin, start_client: StartClient, tmp_path: Path
) -> None:
    """One with a lease, one without gpuconf, one in line: who, how much, and the bar's sum."""
    leased = hold(card, HALF, 2048)
    alone = start_client(card, TAKES_1500)
    alone.read_line()
    waits = hold(card, WAITS, 100, "patient")
    environ = card.environment({})
    wait_until(lambda: bool(shown(tmp_path, environ)["waiting"]))
    document = shown(tmp_path, environ)
    (gpu,) = document["gpus"]
    first, second = gpu["processes"]
    assert (first["pid"], first["program"]) == (leased.pid, "lease_holder.py")
    assert (first["profile"], first["lease_bytes"]) == ("half", (5632 + 640) * MIB)
    assert first["most_bytes"] == first["lease_bytes"]
    assert (first["used_bytes"], first["pids"]) == (2048 * MIB, [leased.pid])
    assert first["since"][:4].isdigit()
    assert (second["pid"], second["program"]) == (alone.pid, "cuda_client.py")
    assert (second["lease_bytes"], second["used_bytes"]) == (None, 1500 * MIB)
    assert gpu["bar"] == {
        "others_bytes": 1945 * MIB,
        "ours_bytes": 3548 * MIB,
        "promised_bytes": 4224 * MIB,
        "free_bytes": 1547 * MIB,
    }
    assert gpu["unlisted_bytes"] == 1945 * MIB
    (waiting,) = document["waiting"]
    assert (waiting["pid"], waiting["profile"]) == (waits.pid, "patient")
    (place,) = waiting["places"]
    assert (place["label"], place["place"]) == ("0", 1)
    assert place["least_bytes"] == (4096 + 640) * MIB


@pytest.mark.usefixtures("libraries")
def test_no_program_is_blamed_for_anothers_use(hold: Begin, tmp_path: Path) -> None:
    """Where the driver does not say who uses how much: one sum for two programs, and yours."""
    with simulated_card(STORY._replace(processes="unknown")) as card:
        for mib in (100, 1000):
            hold(card, HALF, mib)
        (gpu,) = shown(tmp_path, card.environment({}))["gpus"]
    uses = {(each["used_bytes"], each["is_estimate"]) for each in gpu["processes"]}
    assert uses == {(None, True)}
    assert gpu["estimated_bytes"] == gpu["bar"]["ours_bytes"] == 1100 * MIB


def test_the_columns_of_a_terminal(card: Card, hold: Begin, tmp_path: Path) -> None:
    """All of them in 100 columns; 60 have room for who holds how much, and no line is longer."""
    child = hold(card, HALF, 256)
    for columns, heads in (
        (100, ["GPU", "PID", "USER", "PROGRAM", "PROFILE", "RESERVED", "IN USE", "SINCE"]),
        (60, ["GPU", "PID", "USER", "PROGRAM", "RESERVED", "IN USE", "SINCE"]),
    ):
        environ = card.environment({})
        with OnTerminal(gpuconf("ps"), tmp_path, columns=columns, environ=environ) as terminal:
            assert terminal.end() == 0
        assert max(map(len, terminal.lines)) <= columns
        (head,) = (line for line in terminal.lines if " PID " in line)
        assert re.split(r"\s\s+", head) == heads
        (row,) = (line for line in terminal.lines if f" {child.pid} " in line)
        assert "6272 MiB" in row
        assert "256 MiB" in row


def test_a_live_view_follows_and_leaves_a_clean_terminal(
    card: Card, hold: Begin, tmp_path: Path
) -> None:
    """On the other screen, with no more rows than it has; Ctrl-C is its normal end."""
    command = gpuconf("ps", "--watch", "0.1")
    environ = card.environment({})
    with OnTerminal(command, tmp_path, columns=100, rows=12, environ=environ) as terminal:
        terminal.read_until("lists no process")
        child = hold(card, HALF, 256)
        terminal.read_until(f" {child.pid} .* 256 MiB")
        child.kill()
        seen = len(terminal.raw)
        terminal.read_until(rf"(?s)^.{{{seen}}}.*lists no process")
        terminal.press(b"\x03")
        assert terminal.end() == 0
    assert terminal.raw.index("\x1b[?1049h") == 0
    last = terminal.raw.rindex("\x1b[?1049l")
    assert "\x1b[?25h" in terminal.raw[terminal.raw.rindex("\x1b[H") :]
    assert "Traceback" not in terminal.raw
    assert "\n" not in terminal.raw[last:]


def test_a_live_view_that_is_ended(tmp_path: Path, nvml: Nvml) -> None:
    """SIGTERM too restores the terminal."""
    command = gpuconf("ps", "--watch", "0.1")
    with OnTerminal(command, tmp_path, columns=80, environ=nvml("two_cards")) as terminal:
        terminal.read_until("no process uses")
        terminal.process.terminate()
        assert terminal.end() == 128 + signal.SIGTERM
    assert terminal.raw.rindex("\x1b[?1049l") > terminal.raw.rindex("no process uses")


def test_a_live_view_that_is_stopped(tmp_path: Path, nvml: Nvml) -> None:
    """Ctrl-Z gives the terminal back, and the view comes again with SIGCONT."""
    command = gpuconf("ps", "--watch", "0.1")
    with OnTerminal(command, tmp_path, columns=80, environ=nvml("two_cards")) as terminal:
        terminal.read_until("no process uses")
        terminal.process.send_signal(signal.SIGTSTP)
        terminal.read_until(r"\x1b\[\?1049l")
        os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOWAIT)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read_until(r"(?s)1049l.*1049h.*no process uses")
        terminal.press(b"\x03")
        assert terminal.end() == 0


def test_a_live_view_that_is_too_high(tmp_path: Path, nvml: Nvml) -> None:
    """The last row says how many lines there is no room for."""
    command, environ = gpuconf("ps", "--watch", "0.1"), nvml("eight_cards")
    with OnTerminal(command, tmp_path, columns=100, rows=5, environ=environ) as terminal:
        terminal.read_until("[0-9]+ more lines")
        terminal.press(b"\x03")
        assert terminal.end() == 0


def test_a_terminal_that_cannot_draw(tmp_path: Path) -> None:
    """TERM=dumb, as editors have it."""
    command = gpuconf("ps", "--watch")
    with OnTerminal(command, tmp_path, columns=80, environ={"TERM": "dumb"}) as terminal:
        assert terminal.end() == 2
    assert "TERM=dumb" in terminal.raw


def test_without_a_gpu_and_a_ledger(tmp_path: Path, nvml: Nvml) -> None:
    """The line that other commands give, one about the ledger, exit code 0, and nothing made."""
    environ = nvml("no_library")
    plan = run(gpuconf("plan"), tmp_path, environ=environ)
    done = run(gpuconf("ps"), tmp_path, environ=environ)
    problem, empty, ledger = done.stdout.splitlines()
    assert problem in plan.stderr
    assert (empty, ledger) == ("", "no program here has reserved memory yet")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "leases").exists()
    document = shown(tmp_path, environ)
    assert (document["gpus"], document["problem"] is None) == ([], False)


@contextmanager
def leasing(
    folder: Path, card: str, *, owner: Owner | None = None, user: int = 0
) -> Iterator[Child]:
    """A child that leases 1 GiB of a GPU; root's has the mutex, which `ps` must not want."""

    def act(self: Child) -> None:
        if user:
            os.chdir(folder)  # the folders above are closed to others
            os.setuid(user)
        ledger = Ledger(LedgerFolder("." if user else str(folder)))
        ledger.owner = owner or ledger.owner
        note = {"program": "bad\x1b[2Jname", "profile": "shared-desktop"}
        with nullcontext() if user else ledger.mutex.held():
            ledger.take({card: GIB}, note, next_ticket())
            self.say("holds")
            self.wait()

    with child(act) as holder:
        holder.expect("holds")
        yield holder


def test_leases_without_nvml(ledger: Path, tmp_path: Path, nvml: Nvml) -> None:
    """The ledger is shown though NVML is not there, and the mutex held; a name stays harmless."""
    environ = nvml("no_library")
    with leasing(ledger, "GPU-1") as holder:
        before = sorted(ledger.rglob("*"))
        done = run(gpuconf("ps"), tmp_path, environ=environ)
        document = shown(tmp_path, environ)
        assert sorted(ledger.rglob("*")) == before
    assert "NVML does not list this GPU" in done.stdout
    (row,) = (line for line in done.stdout.splitlines() if f" {holder.pid} " in line)
    assert r"bad\x1b[2Jname" in row
    assert "1024 MiB  unknown" in row
    assert "in use unknown" in done.stdout
    assert document["gpus"][0]["lists_processes"] is False
    assert "\x1b" not in done.stdout + json.dumps(document, ensure_ascii=False)


def test_a_dead_holder_is_not_shown_and_not_swept(ledger: Path, tmp_path: Path, nvml: Nvml) -> None:
    """To look changes nothing, not even what a killed program has left."""
    environ = nvml("two_cards")
    with leasing(ledger, standin.uuid(1)) as holder:
        assert len(shown(tmp_path, environ)["gpus"][1]["processes"]) == 1
        holder.kill()
    before = sorted(ledger.rglob("*"))
    assert shown(tmp_path, environ)["gpus"][1]["processes"] == []
    assert sorted(ledger.rglob("*")) == before


def test_a_holder_in_another_pid_namespace(ledger: Path, tmp_path: Path, nvml: Nvml) -> None:
    """Its number counts elsewhere, and what it has taken is unknown: a star and a line say so."""
    environ = nvml("two_cards")
    with leasing(ledger, standin.uuid(0), owner=Owner(4026532999, 7, 12345)):
        (row,) = shown(tmp_path, environ)["gpus"][0]["processes"]
        done = run(gpuconf("ps"), tmp_path, environ=environ)
    assert (row["pid"], row["is_elsewhere"], row["used_bytes"]) == (7, True, None)
    assert re.search(r"^0 +7\* .* 1024 MiB  unknown", done.stdout, re.MULTILINE)
    assert "* in another pid namespace" in done.stdout
    assert "in use unknown" in done.stdout
    assert this_process().namespace != 4026532999


@pytest.mark.needs_root
def test_another_user_is_one_row(ledger: Path, tmp_path: Path, nvml: Nvml) -> None:
    """His processes are summed up, and --all-users shows each."""
    environ, his = nvml("two_cards"), partial(leasing, ledger, standin.uuid(0), user=SOMEBODY)
    with his() as one, his() as other:
        gpu = shown(tmp_path, environ)["gpus"][0]
        done = run(gpuconf("ps"), tmp_path, environ=environ)
        everybody = shown(tmp_path, environ, "--all-users")["gpus"][0]
    assert gpu["processes"] == []
    ((user, count, lease, used),) = (list(each.values()) for each in gpu["others"])
    assert (count, lease, used) == (2, 2 * GIB, 0)
    assert re.search(rf"^0 +{user} +2 processes +2048 MiB +0 MiB$", done.stdout, re.MULTILINE)
    assert "`gpuconf ps --all-users`" in done.stdout
    assert everybody["others"] == []
    found = {(each["pid"], each["user"], each["is_ours"]) for each in everybody["processes"]}
    assert found == {(one.pid, user, False), (other.pid, user, False)}


def test_mig_instances_are_cards(ledger: Path, tmp_path: Path, nvml: Nvml) -> None:
    """Each with its own bar and its own leases; the GPU around them is not a row."""
    environ = nvml("mig")
    with leasing(ledger, standin.mig_uuid(0, 1)) as holder:
        gpus = shown(tmp_path, environ)["gpus"]
        done = run(gpuconf("ps"), tmp_path, environ=environ)
    assert [each["label"] for each in gpus] == ["0.0", "0.1", "0.2", "1"]
    assert [len(each["processes"]) for each in gpus] == [0, 1, 0, 0]
    assert gpus[1]["mig_ids"] == [5, 0]
    assert gpus[1]["bar"]["promised_bytes"] == GIB
    assert re.search(rf"^0\.1 +{holder.pid} ", done.stdout, re.MULTILINE)
    assert "0.2  MIG 2g.10gb " in done.stdout


def test_a_driver_that_lists_no_processes(tmp_path: Path, nvml: Nvml) -> None:
    """WSL2: said once below the GPU."""
    done = run(gpuconf("ps"), tmp_path, environ=nvml("wsl2"))
    assert "the driver does not report which processes use memory" in done.stdout
    (gpu,) = shown(tmp_path, nvml("wsl2"))["gpus"]
    assert (gpu["lists_processes"], gpu["unlisted_bytes"]) == (False, None)


def test_a_driver_that_lists_no_sizes(tmp_path: Path, nvml: Nvml) -> None:
    """A process whose use is not known is shown, and unknown is not 0."""
    environ = nvml("process_memory_unknown")
    done = run(gpuconf("ps", "--all-users"), tmp_path, environ=environ)
    assert re.search(r"^0 +4242 .*python3 .* unknown", done.stdout, re.MULTILINE)
    assert "in use unknown" in done.stdout
    assert shown(tmp_path, environ)["gpus"][0]["unlisted_bytes"] is None


def test_a_ledger_that_is_none(tmp_path: Path, nvml: Nvml) -> None:
    """The GPUs are shown, and the reason why no lease is."""
    (tmp_path / "leases").write_text("")
    done = run(gpuconf("ps"), tmp_path, environ=nvml("two_cards"))
    assert done.returncode == 0
    assert "no lease can be seen: " in done.stdout
    assert "is not a folder" in done.stdout
    assert "RTX 3060" in done.stdout
    relative = run(gpuconf("ps"), tmp_path, environ={**nvml("no_library"), "GPUCONF_LEASES": "a/b"})
    assert "no lease can be seen: GPUCONF_LEASES=a/b is not an absolute path" in relative.stdout


def test_the_line_closes_behind_who_has_gone(ledger: Path, tmp_path: Path, nvml: Nvml) -> None:
    """A program that was killed in the middle of the line is not in it, before any sweep."""
    waits = partial(held, ledger, {standin.uuid(0): GIB}, waits=True)
    with waits() as one, waits() as other, waits() as last:
        other.kill()
        waiting = shown(tmp_path, nvml("two_cards"))["waiting"]
    places = [(each["pid"], each["places"][0]["place"]) for each in waiting]
    assert places == [(one.pid, 1), (last.pid, 2)]
