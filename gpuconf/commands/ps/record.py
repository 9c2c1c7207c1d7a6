"""A record of who was busy when: `ps --record` writes it, and `ps --idle` reads it.

Each line is the document of `ps --all-users --json` at one time.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from gpuconf.basics.json_values import decoded, plain
from gpuconf.commands.ps.document import GpuUsage, Holdings, ProcessUsage
from gpuconf.errors import GpuconfError
from gpuconf.machine.leases.folder import NoLedgerError, find_folder

_FILE, _OLDER = "ps.jsonl", ".old"
_MOST_BYTES = 4 << 20  # of each of the two files
_HINT = "record every five minutes, as `gpuconf docs howto/lab-machine` shows: gpuconf ps --record"


def write_record(holdings: Holdings) -> None:
    """Append all users' holdings.

    Raises GpuconfError if the driver does not say how busy GPUs are, or the file cannot be written.
    """
    if all(card.busy_percent is None for card in holdings.cards):
        why = holdings.problem or "the driver does not report how busy a GPU is"
        raise GpuconfError(f"there is nothing to record: {why}", hint="gpuconf doctor")
    path = _path(may_make=True)
    try:
        with open(path, "a", encoding="utf-8", opener=_opener) as file:
            file.write(json.dumps(plain(holdings)) + "\n")
        if os.path.getsize(path) > _MOST_BYTES:
            os.replace(path, path + _OLDER)
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror}"
        raise GpuconfError(why, hint=f"ls -l {path}") from None


def only_idle(holdings: Holdings, idle_s: float) -> Holdings:
    """Return the holdings of those processes that the record shows as idle for ``idle_s`` seconds.

    A gap of half that time in the record does not count as proof. Raises GpuconfError if there is
    no record, or if it cannot be read, has a line in a different format, or has such a gap at its
    end.
    """
    path = _path(may_make=False)
    record = [*_read(path + _OLDER), *_read(path)]
    if not record:
        raise GpuconfError(f"there is no record yet: {path} does not exist", hint=_HINT)
    least, last = timedelta(seconds=idle_s), record[-1].made_at
    if _time(holdings.made_at) - _time(last) > least / 2:
        raise GpuconfError(f"the record ends at {last}: {path}", hint=_HINT)

    def idle(card: GpuUsage) -> Iterator[ProcessUsage]:
        for each in card.processes:
            since = _idle_since(each, card, [*record, holdings], least / 2)
            if since is not None and _time(holdings.made_at) - _time(since) >= least:
                yield each._replace(idle_since=since)

    cards = (card._replace(processes=tuple(idle(card))) for card in holdings.cards)
    return holdings._replace(cards=tuple(cards), waiting=())


def _idle_since(
    process: ProcessUsage, card: GpuUsage, record: Sequence[Holdings], longest_gap: timedelta
) -> str | None:
    """Return when a process stopped computing on a GPU; None if it has not, or if unknown."""
    since, last = None, process.since
    for moment in record:
        # What is recorded before its start is of an earlier process with its number.
        if last is None or _time(moment.made_at) < _time(last):
            continue
        if not _is_idle(process.pid, card, moment):
            since = None
        elif since is None or _time(moment.made_at) - _time(last) > longest_gap:
            since = moment.made_at
        last = moment.made_at
    return since


def _is_idle(pid: int, card: GpuUsage, moment: Holdings) -> bool:
    """Whether a process was not computing at that moment. If the process's own figure is unknown,
    the GPU's figure counts."""
    for each in moment.cards:
        for process in each.processes if (each.uuid, each.label) == (card.uuid, card.label) else ():
            if process.pid == pid:
                busy = process.busy_percent
                return (each.busy_percent if busy is None else busy) == 0
    return False


def _time(moment: str) -> datetime:
    return datetime.fromisoformat(moment)


def _path(*, may_make: bool) -> str:
    try:
        return os.path.join(find_folder(may_make=may_make).path, _FILE)
    except NoLedgerError as error:
        raise GpuconfError(f"there is no record yet: {error}", hint=_HINT) from None


def _opener(path: str, flags: int) -> int:
    """Open a record file for its owner only, since it names other users' programs.

    Any user may create files in its folder.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid()):
        return descriptor
    os.close(descriptor)
    raise PermissionError(0, "it must belong to root or to this user")


def _read(path: str) -> Iterator[Holdings]:
    number = 1
    try:
        with open(path, encoding="utf-8", opener=_opener) as file:
            for line in file:
                moment = decoded(Holdings, json.loads(line))
                _time(moment.made_at)
                yield moment
                number += 1
    except FileNotFoundError:
        return
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror}"
        raise GpuconfError(why, hint=f"ls -l {path}") from None
    except (ValueError, RecursionError):
        why = f"{path}, line {number}: expected a line of `gpuconf ps --record`"
        raise GpuconfError(why, hint=f"rm {path}") from None
