"""The ledger's files: this module reads, sweeps, takes and releases leases.

A lease is created under another name, locked and then renamed, so it is always locked when others
see it.  Its POSIX lock shows that the holder is alive.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpuconf.basics.processes import stat_of
from gpuconf.machine.leases.files import (
    descriptors_of,
    encoded,
    folders_in,
    is_locked,
    names_in,
    remove,
)
from gpuconf.machine.leases.folder import LedgerFolder, NoLedgerError, make_sticky
from gpuconf.machine.leases.lease import (
    GRANTED,
    UNFINISHED,
    WAITING,
    Lease,
    file_name,
    next_ticket,
    parse,
    this_process,
)
from gpuconf.machine.leases.mutex import Mutex

if sys.platform != "win32":
    import fcntl

MOST_FILES = 10_000  # per GPU
_MOST_CARDS = 1000
# A lease uses the first free descriptor from here on.  Programs overwrite lower numbers: they
# reopen stdin, stdout and stderr, a shell script that `gpuconf run` becomes runs `exec 3>&1` or
# `exec 200>lock`, and a descriptor closed by dup2 drops the lock.  The last ones are for a small
# `ulimit -n`.
_OUT_OF_THE_WAY = (700, 217, 57, 13, 3)


class _Held:
    """A lease of this process: its open file, and the names that it may have."""

    def __init__(self, folder: str) -> None:
        self.paths: list[str] = [f"{folder}/{UNFINISHED}{os.getpid()}.{next_ticket()}"]
        self.descriptors: list[int] = []
        self.lease: Lease | None = None
        self._file: os.stat_result | None = None

    def open(self) -> int:
        """Create the lease file; return a descriptor whose number programs do not overwrite."""
        # Without O_CLOEXEC: the lease stays with a program that execs another.
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW
        self.descriptors.append(os.open(self.paths[0], flags, 0o644))
        self._file = os.fstat(self.descriptors[0])
        for least in _OUT_OF_THE_WAY:
            if self.descriptors[0] >= least:
                break
            with suppress(OSError):  # the process may not have that many
                self.descriptors.append(fcntl.fcntl(self.descriptors[0], fcntl.F_DUPFD, least))
                os.close(self.descriptors[0])  # before there is a lock, which closing would drop
                del self.descriptors[0]
        os.set_inheritable(self.descriptors[0], True)
        return self.descriptors[0]

    def adopt(self, lease: Lease, descriptors: list[int]) -> None:
        """Take over a lease that is already open in this process."""
        self.paths, self.lease, self.descriptors = [lease.path], lease, descriptors
        self._file = os.fstat(descriptors[0])

    def close(self) -> None:
        """Close the file, unless its descriptors were reused: daemons close all their
        descriptors."""
        while self.descriptors:
            with suppress(OSError):
                file = os.fstat(self.descriptors[-1])
                if self._file is None or os.path.samestat(file, self._file):
                    os.close(self.descriptors[-1])
            self.descriptors.pop()


class Ledger:
    """The ledger in ``folder``, as used by this process."""

    def __init__(self, folder: LedgerFolder) -> None:
        self.folder = folder
        self.owner = this_process()
        self.mutex = Mutex(folder.path)
        self._held: list[_Held] = []

    # --- reading --------------------------------------------------------------------------------

    def cards(self) -> list[str]:
        """Return the names of all GPUs with a folder here, or in an older ledger.

        Raises NoLedgerError for a ledger with too many GPUs.
        """
        names = {entry.name for root in self._roots() for entry in folders_in(root)}
        names = {name for name in names if not name.startswith(UNFINISHED)}
        if len(names) > _MOST_CARDS:
            raise NoLedgerError(f"{self.folder.path} contains folders for {len(names)} GPUs")
        return sorted(names)

    def leases(self, card: str, *, sweep: bool = False) -> list[Lease]:
        """Return the leases on ``card`` granted to live processes, except this process's own.

        ``sweep``, allowed only for the mutex's holder, removes files of dead processes.  Raises
        NoLedgerError for a folder with too many files.
        """
        granted = [each for each in self._listed(card, sweep=sweep) if not each.is_waiting]
        return [each for each in granted if self._lives(each, sweep=sweep)]

    def waiting(self, card: str, before: int | None = None, *, sweep: bool = False) -> list[Lease]:
        """Return the queue for ``card``, with its head first and without known dead entries at its
        end.

        With ``before``, only leases with a lower ticket.  Those ahead of the last live one are not
        checked: a thousand waiting programs need not all check each other.  A stopped program (^Z)
        keeps its place but does not hold up those behind it.
        """
        line = [
            each
            for each in self._listed(card, sweep=False)
            if each.is_waiting
            and each.owner != self.owner
            and (before is None or each.ticket < before)
        ]
        line.sort(key=lambda each: (each.ticket, each.owner))
        while line and (not self._lives(line[-1], sweep=sweep) or self._is_stopped(line[-1])):
            line.pop()
        return line

    def _listed(self, card: str, *, sweep: bool) -> list[Lease]:
        found = []
        for root in self._roots():
            folder = f"{root}/{card}"
            names = names_in(folder)
            if len(names) > MOST_FILES:
                raise NoLedgerError(f"{folder} contains {len(names)} files")
            for name in names:
                lease = parse(folder, name)
                if lease is not None:
                    found.append(lease)
                elif sweep and name.startswith(UNFINISHED):
                    self._sweep_unfinished(f"{folder}/{name}")
        return found

    def _sweep_unfinished(self, path: str) -> None:
        """Remove a file that was never renamed, unless it is one of ours."""
        if not any(path in held.paths for held in self._held) and not is_locked(path):
            remove(path)

    def _roots(self) -> tuple[str, ...]:
        return (self.folder.path, *self.folder.others)

    def _lives(self, lease: Lease, *, sweep: bool) -> bool:
        """Whether another process's lease is alive; False for this process's own."""
        if lease.owner == self.owner:
            return False  # and never opened, which would end it
        lives = is_locked(lease.path)
        if not lives and sweep:
            remove(lease.path)
        return lives

    def _is_stopped(self, lease: Lease) -> bool:
        """Whether the lease's process is stopped by a signal, if it is in this pid namespace."""
        namespace, pid, start = lease.owner
        stat = stat_of(pid) if namespace == self.owner.namespace else None
        return stat is not None and stat.state in "Tt" and stat.started == start

    # --- taking ---------------------------------------------------------------------------------

    @property
    def held(self) -> tuple[Lease, ...]:
        """The leases of this process, including places in the queue."""
        return tuple(held.lease for held in self._held if held.lease is not None)

    def adopt(self) -> None:
        """Take over the leases that this process took before it became another program by exec.

        Its files have our name, and their descriptors are still open here.
        """
        known = {path for held in self._held for path in held.paths}
        for card in self.cards():
            for lease in self._listed(card, sweep=False):
                is_ours = lease.owner == self.owner and lease.path not in known
                # A file that is not open here was made by someone else, who may use any name.
                descriptors = descriptors_of(lease.path) if is_ours else []
                if descriptors:
                    held = _Held(lease.folder)
                    held.adopt(lease, descriptors)
                    self._held.append(held)

    def take(
        self,
        sizes: Mapping[str, int],
        note: Mapping[str, str],
        ticket: int,
        *,
        waiting: bool = False,
        keep: Sequence[object] = (),
    ) -> None:
        """Lease this many bytes on each GPU or, with ``waiting``, join each GPU's queue.

        Of the leases held before, only ``keep`` is retained. Call this under the mutex. Raises
        NoLedgerError if a file cannot be created; in that case it takes nothing.
        """
        if sizes and self.folder.is_read_only:
            raise NoLedgerError(f"{self.folder.path}: no permission to write there")
        before = list(self._held)
        try:
            for card, size_bytes in sizes.items():
                self._make(card, WAITING if waiting else GRANTED, ticket, size_bytes, note)
        except OSError as error:
            self.release_except(before)
            raise NoLedgerError(f"{self.folder.path}: {error.strerror}") from None
        except BaseException:
            self.release_except(before)
            raise
        after = [held for held in self._held if held not in before]
        self.release_except([*after, *keep])

    def _make(
        self, card: str, state: str, ticket: int, size_bytes: int, note: Mapping[str, str]
    ) -> None:
        folder = f"{self.folder.path}/{card}"
        with suppress(FileExistsError):
            make_sticky(folder)
        _refuse_open(folder)
        held = _Held(folder)
        self._held.append(held)
        descriptor = held.open()
        os.fchmod(descriptor, 0o644)  # whatever the umask: others must be able to query its lock
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        with suppress(OSError):  # a full disk: the name holds all that matters
            os.write(descriptor, encoded(note))
        name = file_name(state, ticket, self.owner, size_bytes)
        held.paths.append(f"{folder}/{name}")
        held.lease = parse(folder, name)
        os.rename(*held.paths)

    # --- releasing ------------------------------------------------------------------------------

    def release_except(self, kept: Sequence[object]) -> None:
        """Release everything this process holds, except ``kept``, an earlier `snapshot`."""
        for held in [each for each in self._held if each not in kept or each.lease is None]:
            held.lease = None  # released at the next call if an interrupt comes now
            for path in held.paths:
                remove(path)
            held.close()
            self._held.remove(held)

    def snapshot(self) -> list[object]:
        """Return the leases held now, for :meth:`release_except` and :meth:`take`."""
        return list(self._held)

    def after_fork(self) -> None:
        """Drop all leases in a forked child: POSIX locks stay with the parent."""
        self.owner = this_process()
        self.mutex.after_fork()
        for held in self._held:
            held.close()
        self._held = []


def _refuse_open(folder: str) -> None:
    """Raise NoLedgerError if users can remove each other's leases in a GPU's folder."""
    mode = os.stat(folder, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode) or (mode & 0o022 and not mode & stat.S_ISVTX):
        raise NoLedgerError(f"{folder} is not a sticky folder")
