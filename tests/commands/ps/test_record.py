"""`gpuconf ps --record` and `--idle`: who has been idle since when, and what is no proof of it."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest

from gpuconf.basics.json_values import plain
from gpuconf.basics.units import GIB
from gpuconf.commands.ps.document import GpuUsage, Holdings, ProcessUsage
from gpuconf.commands.ps.record import only_idle, write_record
from gpuconf.errors import GpuconfError
from tests.commands.cli.commands import gpuconf
from tests.commands.cli.test_ps_command import shown
from tests.machine.cards import standin
from tests.machine.leases.ledgers import held, ledger_in
from tests.programs.processes import Nvml, run

NOW = datetime(2026, 11, 28, 12, tzinfo=timezone.utc)
TWO_HOURS_S = 7200


def moment(minutes_ago: float) -> str:
    """So many minutes before now."""
    return (NOW - timedelta(minutes=minutes_ago)).isoformat(timespec="seconds")


def holdings(busy: int | None = 0, *, started_min_ago: float = 600) -> Holdings:
    """Process 7 on GPU-1, now."""
    process = ProcessUsage(7, used_bytes=GIB, since=moment(started_min_ago), busy_percent=busy)
    card = GpuUsage("0", 0, uuid="GPU-1", busy_percent=busy, processes=(process,))
    return Holdings(moment(0), (card,))


def line(minutes_ago: float, busy: int | None = 0, *, of_gpu: int | None = 0, pid: int = 7) -> str:
    """A line of the record, of process 7."""
    (card,) = holdings(busy).cards
    process = card.processes[0]._replace(pid=pid)
    card = card._replace(busy_percent=of_gpu, processes=(process,))
    return json.dumps(plain(Holdings(moment(minutes_ago), (card,)))) + "\n"


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record's file, in a folder of leases."""
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("GPUCONF_LEASES", str(tmp_path))
    return tmp_path / "ps.jsonl"


EVERY_50_MIN = [line(each) for each in (200, 150, 100, 50)]


@pytest.mark.parametrize(
    ("lines", "now", "since_min_ago"),
    [
        (EVERY_50_MIN, holdings(), 200),
        ([line(250, 80), *EVERY_50_MIN], holdings(), 200),
        ([line(250, 0, pid=8), *EVERY_50_MIN], holdings(), 200),
        (EVERY_50_MIN, holdings(started_min_ago=170), 150),  # an earlier process with its number
        (EVERY_50_MIN, holdings(started_min_ago=110), None),
        (EVERY_50_MIN, holdings(1), None),
        ([*EVERY_50_MIN[:2], line(100, 3), line(50)], holdings(), None),
        ([line(200), line(130), line(100), line(50)], holdings(), 130),  # a gap of 70 minutes
        ([line(each, None, of_gpu=0) for each in (150, 100, 50)], holdings(), 150),
        ([line(each, None, of_gpu=9) for each in (150, 100, 50)], holdings(), None),
        ([line(each, None, of_gpu=None) for each in (150, 100, 50)], holdings(), None),
        ([line(each).replace("GPU-1", "GPU-2") for each in (150, 100, 50)], holdings(), None),
    ],
)
def test_who_has_been_idle_for_two_hours(
    lines: list[str], now: Holdings, since_min_ago: float | None, record: Path
) -> None:
    """The record must show it without a gap of an hour; what is unknown counts as busy."""
    record.write_text("".join(lines))
    found = [
        each.idle_since for card in only_idle(now, TWO_HOURS_S).cards for each in card.processes
    ]
    assert found == ([] if since_min_ago is None else [moment(since_min_ago)])


def test_both_files_are_read(record: Path) -> None:
    """A full record is put aside; then the new one alone would show too short a time."""
    Path(f"{record}.old").write_text("".join(EVERY_50_MIN[:2]))
    record.write_text("".join(EVERY_50_MIN[2:]))
    assert only_idle(holdings(), TWO_HOURS_S).cards[0].processes[0].idle_since == moment(200)


def test_a_full_record_is_put_aside(record: Path) -> None:
    """So that it does not grow for ever."""
    record.write_text(line(500) * 10_000)
    write_record(holdings())
    assert not record.exists()
    *_, last = Path(f"{record}.old").read_text().splitlines()
    write_record(holdings())
    assert record.read_text() == f"{last}\n"
    assert record.stat().st_mode & 0o777 == 0o600  # others' programs are in it
    assert json.loads(last) == plain(holdings())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no record yet: {path} does not exist"),
        ("", "there is no record yet: {path} does not exist"),
        (line(61), "the record ends at 2026-11-28T10:59:00+00:00: {path}"),
        (line(90) + "{\n", "{path}, line 2: expected a line of `gpuconf ps --record`"),
        (line(90).replace('"made_at"', '"made"'), "{path}, line 1: expected"),
        (line(90).replace("2026-", "26-"), "{path}, line 1: expected"),
        (line(90) + "\n", "line 2"),
        ("[" * 100_000, "line 1"),
    ],
)
def test_a_record_that_proves_nothing(content: str | None, words: str, record: Path) -> None:
    """Is one error with a hint, not a list without a process."""
    if content is not None:
        record.write_text(content)
    with pytest.raises(GpuconfError) as raised:
        only_idle(holdings(), TWO_HOURS_S)
    assert words.format(path=record) in raised.value.message
    assert raised.value.hint
    assert raised.value.exit_code == 1


def test_a_record_of_somebody_else(record: Path, tmp_path: Path) -> None:
    """Any user may put a file there: a link or a pipe is neither read nor written."""
    (tmp_path / "target").write_text(line(50))
    for is_link in (True, False):
        record.symlink_to(tmp_path / "target") if is_link else os.mkfifo(record)
        with pytest.raises(GpuconfError, match="cannot be read"):
            only_idle(holdings(), TWO_HOURS_S)
        with pytest.raises(GpuconfError, match="cannot be written"):
            write_record(holdings())
        record.unlink()
    assert (tmp_path / "target").read_text() == line(50)


@pytest.mark.needs_root
def test_a_record_of_another_user_is_not_trusted(record: Path) -> None:
    """He could name a program as idle that is not."""
    record.write_text(line(50))
    os.chown(record, 65534, 65534)
    with pytest.raises(GpuconfError, match="must belong to root or to this user"):
        only_idle(holdings(), TWO_HOURS_S)


@pytest.mark.slow
def test_from_a_timer_to_a_list(tmp_path: Path, nvml: Nvml) -> None:
    """The real nvidia-ml-py: of two programs the idle one is listed, with all its figures."""
    ledger = ledger_in(tmp_path / "leases")
    holds = partial(held, ledger, {standin.uuid(0): GIB})
    with holds() as busy, holds() as idle:
        listed = (standin.Process(busy.pid, busy=35), standin.Process(idle.pid, used_bytes=GIB))
        card = standin.Card(standin.uuid(0), used=2 * GIB, busy=35, processes=listed)
        environ = nvml(standin.Machine((card,)))
        done = run(gpuconf("ps", "--record"), tmp_path, environ=environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        record = ledger / "ps.jsonl"
        recorded = json.loads(record.read_text())
        rows = recorded["gpus"][0]["processes"]
        assert {each["pid"]: each["busy_percent"] for each in rows} == {busy.pid: 35, idle.pid: 0}
        for lease in ledger.glob("*/*"):  # three hours ago, as is the record
            os.utime(lease, (0, lease.stat().st_mtime - 3 * 3600))
        now = datetime.fromisoformat(recorded["made_at"])
        moments = [(now - timedelta(minutes=each)).isoformat() for each in (150, 100, 50, 0)]
        lines = [json.dumps({**recorded, "made_at": each}) for each in moments]
        record.write_text("".join(f"{each}\n" for each in lines))
        document = shown(tmp_path, environ, "--idle", "2h")
        done = run(gpuconf("ps", "--idle", "2h"), tmp_path, environ=environ)
        none = run(gpuconf("ps", "--idle", "3h"), tmp_path, environ=environ)
    ((found,),) = (each["processes"] for each in document["gpus"])
    assert (found["pid"], found["used_bytes"]) == (idle.pid, GIB)
    assert (found["busy_percent"], found["idle_since"]) == (0, moments[0])
    assert re.search(rf"IDLE SINCE\n0 +{idle.pid} ", done.stdout)
    assert "the record shows no process as idle so long" in none.stdout


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["two_cards", "no_library"])
def test_a_driver_that_says_nothing(scenario: str, tmp_path: Path, nvml: Nvml) -> None:
    """No column, null in the document, and nothing to record."""
    environ = nvml(scenario)
    assert "BUSY" not in run(gpuconf("ps"), tmp_path, environ=environ).stdout
    document = json.loads(run(gpuconf("ps", "--json"), tmp_path, environ=environ).stdout)
    assert {each["busy_percent"] for each in document["gpus"]} <= {None}
    done = run(gpuconf("ps", "--record"), tmp_path, environ=environ)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is nothing to record: " in done.stderr
    assert not (tmp_path / "leases").exists()
