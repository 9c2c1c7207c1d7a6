"""A lease file as other processes see it: whether it is locked, its contents, and its folders."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import FileIO

from gpuconf.basics.terminal import printable
from gpuconf.injected.places import FIRST as FIRST_PLACE
from gpuconf.injected.places import has_place
from gpuconf.machine.leases.folder import NoLedgerError
from gpuconf.machine.leases.lease import Lease

if sys.platform != "win32":
    import fcntl

# struct flock of 64-bit Linux.  macOS has another, and no NVIDIA GPU, so nothing is leased there.
_FLOCK = "hhqqi4x"
_OWN_LACKS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK))
_LONGEST_NOTE = 4096


def users_of(lease: Lease) -> tuple[int, ...]:
    """Return the processes that have a place in another process's lease: see
    gpuconf.injected.places.

    A process in another pid namespace is listed as 0.
    """
    found: list[int] = []
    if has_place(lease.path):
        return (os.getpid(),)
    with suppress(OSError), _opened(lease.path) as file:
        start = FIRST_PLACE
        while True:
            asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, start, 0, 0)
            kind, _, first, length, pid = struct.unpack(
                _FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked)
            )
            if kind == fcntl.F_UNLCK:
                break
            found.append(max(pid, 0))
            if not length:  # to the end of the file, which is not a place
                break
            start = first + length
    return tuple(found)


def read_note(lease: Lease) -> dict[str, str]:
    """Return the holder's note about itself; empty for this process's own lease."""
    if has_place(lease.path):
        return {}
    try:
        with _opened(lease.path) as file:
            text = (file.read(_LONGEST_NOTE) or b"").decode("utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: printable(value) for name, separator, value in pairs if separator}


def encoded(note: Mapping[str, str]) -> bytes:
    """Encode ``note`` for :func:`read_note`."""
    lines = (f"{name}={' '.join(value.split())}\n" for name, value in note.items())
    return "".join(lines).encode("utf-8", errors="replace")[:_LONGEST_NOTE]


def is_locked(path: str) -> bool:
    """Whether a process holds a lock on the regular file ``path``.

    A file that cannot be opened is not ours, because ours are readable by everyone.  Raises
    NoLedgerError if this process lacks resources, such as file descriptors: that does not mean that
    the lease is dead.
    """
    if has_place(path):  # this process holds it, and would lose its place by opening the file
        return True
    try:
        with _opened(path) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            answer = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError as error:
        if error.errno in _OWN_LACKS:
            raise NoLedgerError(f"{path}: {error.strerror}") from None
        return False
    return bool(answer[0] != fcntl.F_UNLCK)


def _opened(path: str) -> FileIO:
    """Open ``path`` for reading; the file object is closed even after an interrupt."""
    # O_NONBLOCK, because opening a pipe of that name would wait for a writer.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    return FileIO(path, opener=lambda name, _: os.open(name, flags))


def remove(path: str) -> None:
    """Remove the file, if permitted."""
    with suppress(OSError):  # another user's file in a sticky folder, or already gone
        os.unlink(path)


def names_in(folder: str) -> list[str]:
    """List the names in ``folder``, if it exists; raise NoLedgerError if unreadable."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NoLedgerError(f"{folder}: {error.strerror}") from None


def folders_in(root: str) -> Iterator[os.DirEntry[str]]:
    """Yield the folders in ``root``, if it exists; raise NoLedgerError if unreadable."""
    try:
        with os.scandir(root) as entries:
            yield from (entry for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise NoLedgerError(f"{root}: {error.strerror}") from None


def descriptors_of(path: str) -> list[int]:
    """Return this process's descriptors that are open on the file ``path``, under any name."""
    found = []
    with suppress(OSError):  # it no longer exists
        file = os.stat(path, follow_symlinks=False)
        for name in names_in("/proc/self/fd"):
            with suppress(OSError):  # the descriptor of the listing itself
                if os.path.samestat(os.fstat(int(name)), file):
                    found.append(int(name))
    return found
