"""A record of who was busy on each GPU when: `ps --record` writes it, `ps --idle` reads it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, Count
from gpuconf.basics.json_values import decoded_exactly, plain
from gpuconf.commands.ps.document import CardHoldings, Holding, Holdings, Percent
from gpuconf.errors import GpuconfError
from gpuconf.machine.leases.folder import NoLedgerError, find_folder

_FILE = "ps.jsonl"
_OLDER = ".old"
_MOST_BYTES = 4 << 20  # of each of the two files
_HINT = "record every five minutes, as `gpuconf docs howto/lab-machine` shows: gpuconf ps --record"


class Sample(NamedTuple):
    """A line of the record: a process on a GPU, or a GPU without one.  Unknown is None."""

    made_at: str
    gpu: str
    gpu_busy_percent: Percent | None
    pid: Count | None = None
    user: str | None = None
    program: str | None = None
    used_bytes: Bytes | None = None
    busy_percent: Percent | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it did not compute.  A GPU's figure counts where the process's is unknown."""
        busy = self.gpu_busy_percent if self.busy_percent is None else self.busy_percent
        return busy == 0


def write_record(holdings: Holdings) -> None:
    """Append who uses each GPU, and how busy it is.

    Raises GpuconfError if the driver does not say how busy GPUs are, or the file cannot be written.
    """
    cards = [each for each in holdings.cards if each.busy_percent is not None]
    if not cards:
        why = holdings.problem or "the driver does not report how busy a GPU is"
        raise GpuconfError(f"there is nothing to record: {why}", hint="gpuconf doctor")
    samples = [each for card in cards for each in _samples(holdings.made_at, card)]
    path = _path(may_make=True)
    try:
        with open(path, "a", encoding="utf-8", opener=_opener) as file:
            file.write("".join(f"{json.dumps(plain(each))}\n" for each in samples))
        if os.path.getsize(path) > _MOST_BYTES:
            os.replace(path, path + _OLDER)
    except OSError as error:
        raise GpuconfError(
            f"{path} cannot be written: {error.strerror}", hint=f"ls -l {path}"
        ) from None


def only_idle(holdings: Holdings, idle_s: float) -> Holdings:
    """Return the same with those processes only that the record shows idle for ``idle_s`` seconds.

    A gap of half that time in the record is no proof.  Raises GpuconfError if there is no record,
    or it cannot be read, has a line of another form, or has such a gap at its end.
    """
    path = _path(may_make=False)
    samples = [*_read(path + _OLDER), *_read(path)]
    if not samples:
        raise GpuconfError(f"there is no record yet: {path} does not exist", hint=_HINT)
    longest_gap = timedelta(seconds=idle_s / 2)
    now = datetime.fromisoformat(holdings.made_at)
    if now - _time(samples[-1].made_at) > longest_gap:
        raise GpuconfError(f"the record ends at {samples[-1].made_at}: {path}", hint=_HINT)

    def idle(card: CardHoldings) -> Iterator[Holding]:
        for each in card.processes:
            its = [one for one in samples if (one.gpu, one.pid) == (_name(card), each.pid)]
            since = _idle_since(each, [*its, _sample(holdings.made_at, card, each)], longest_gap)
            if since is not None and now - _time(since) >= timedelta(seconds=idle_s):
                yield each._replace(idle_since=since)

    cards = (card._replace(processes=tuple(idle(card))) for card in holdings.cards)
    return holdings._replace(cards=tuple(cards), waiting=())


def _samples(made_at: str, card: CardHoldings) -> list[Sample]:
    none = Sample(made_at, _name(card), card.busy_percent)
    return [_sample(made_at, card, each) for each in card.processes] or [none]


def _sample(made_at: str, card: CardHoldings, each: Holding) -> Sample:
    return Sample(
        made_at,
        _name(card),
        card.busy_percent,
        pid=each.pid,
        user=each.user,
        program=each.program,
        used_bytes=each.used_bytes,
        busy_percent=each.busy_percent,
    )


def _name(card: CardHoldings) -> str:
    return card.uuid or card.label


def _idle_since(process: Holding, samples: Sequence[Sample], longest_gap: timedelta) -> str | None:
    """Return when the last series of idle samples began; None if the last one is not idle."""
    if process.since is None:
        return None  # it may be in another container
    since, last = None, process.since
    for each in samples:
        if _time(each.made_at) < _time(process.since):
            continue  # of an earlier process with this number
        if not each.is_idle:
            since = None
        elif since is None or _time(each.made_at) - _time(last) > longest_gap:
            since = each.made_at
        last = each.made_at
    return since


def _time(moment: str) -> datetime:
    return datetime.fromisoformat(moment)


def _path(*, may_make: bool) -> str:
    try:
        return os.path.join(find_folder(may_make=may_make).path, _FILE)
    except NoLedgerError as error:
        raise GpuconfError(f"there is no record yet: {error}", hint=_HINT) from None


def _opener(path: str, flags: int) -> int:
    """Open a file of the record; any user may create files in its folder."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid()):
        return descriptor
    os.close(descriptor)
    raise PermissionError(0, "it is not a file of root or of this user")


def _read(path: str) -> Iterator[Sample]:
    number = 1
    try:
        with open(path, encoding="utf-8", opener=_opener) as file:
            for line in file:
                sample = decoded_exactly(Sample, json.loads(line))
                _time(sample.made_at)
                yield sample
                number += 1
    except FileNotFoundError:
        return
    except OSError as error:
        raise GpuconfError(
            f"{path} cannot be read: {error.strerror}", hint=f"ls -l {path}"
        ) from None
    except (ValueError, RecursionError):
        raise GpuconfError(
            f"{path}, line {number}: expected a line of `gpuconf ps --record`", hint=f"rm {path}"
        ) from None
