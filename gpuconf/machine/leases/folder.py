"""The ledger's folder, which every program on this machine can find and write to.

It is ``$GPUCONF_LEASES``, else the first of `DEFAULTS` that exists and is valid, else the first
that can be created.  It must be on a local file system, since locks on network file systems behave
differently, and sticky, so that users cannot remove each other's leases.  XDG_RUNTIME_DIR would be
a separate folder for each user.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from gpuconf.basics.processes import text_in
from gpuconf.machine.leases.lease import UNFINISHED, next_ticket

VARIABLE = "GPUCONF_LEASES"
# One from an administrator (tmpfiles.d), Debian's, and one on every Linux with shared memory.
DEFAULTS = ("/run/gpuconf", "/run/lock/gpuconf", "/dev/shm/gpuconf")
MODE = 0o1777
_OVER_A_NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs"),
        *("beegfs", "glusterfs", "ncpfs", "ocfs2", "gfs2", "pvfs2", "panfs", "orangefs"),
    )
)
_MOUNTS = "/proc/self/mountinfo"
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO in the kernel's proc_ns.h
_INITIAL_IPC_NAMESPACE = 0xEFFFFFFF  # PROC_IPC_INIT_INO
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


class NoLedgerError(Exception):
    """No ledger can be used; the message says why.

    ``is_missing`` means that none of the folders exists, as is the case before the first lease.
    """

    def __init__(self, reason: str, *, is_missing: bool = False) -> None:
        super().__init__(reason)
        self.is_missing = is_missing


FaultCode = Literal[
    "relative",
    "missing",
    "no_folder",
    "not_sticky",
    "closed",  # not readable
    "read_only",
    "network",
]


class FolderFault(NamedTuple):
    """Why a path cannot be a ledger's folder: a machine-readable code and a human-readable
    sentence."""

    path: str
    code: FaultCode
    sentence: str


class LedgerFolder(NamedTuple):
    """The ledger's folder.

    ``others`` are additional folders that contain leases, for example after an administrator has
    created a better one. ``is_private`` means that only the programs of this container see it. With
    ``is_read_only``, the leases of other programs can be read, but none can be taken.
    """

    path: str
    others: tuple[str, ...] = ()
    is_private: bool = False
    is_read_only: bool = False


def find_folder(
    environ: Mapping[str, str] = os.environ,
    *,
    may_make: bool = True,
    defaults: Sequence[str] = DEFAULTS,
) -> LedgerFolder:
    """Return the ledger's folder; raise NoLedgerError with the reasons if there is none.

    Creates it if needed, unless ``may_make`` is False.
    """
    if sys.platform == "win32":
        raise NoLedgerError("reservations do not work on Windows")
    named = environ.get(VARIABLE)
    if named:
        _make([named] if may_make and os.path.isabs(named) else [])
        fault = fault_of(named, follow_links=True)
        if fault is not None:
            raise NoLedgerError(f"{VARIABLE}={fault.sentence}", is_missing=fault.code == "missing")
        return LedgerFolder(named, is_read_only=not os.access(named, os.W_OK))
    good, writable = _usable(defaults)
    if not writable and may_make:
        _make(defaults)
        # Check all of them again: another user's program may have created the next one just now.
        good, writable = _usable(defaults)
    if not good and not writable:
        faults = [fault for fault in map(fault_of, defaults) if fault is not None]
        raise NoLedgerError(
            "; ".join(fault.sentence for fault in faults),
            is_missing=all(fault.code == "missing" for fault in faults),
        )
    path = (writable or good)[0]
    others = tuple(each for each in good if each != path)
    return LedgerFolder(path, others, is_private(path), is_read_only=not writable)


def _usable(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the ``paths`` that can be a ledger's folder, and those of them shared with other
    users."""
    good = [path for path in paths if fault_of(path) is None]
    return good, list(filter(is_shared, good))


def is_shared(path: str) -> bool:
    """Whether this process and other users may write; otherwise root would have its own mutex
    there."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # removed just now
        return False
    return bool(mode & 0o022) and os.access(path, os.W_OK)


def _make(paths: Iterable[str]) -> None:
    """Create the first of ``paths`` that can be created, unless another program has just done
    so."""
    for path in paths:
        with suppress(OSError):
            make_sticky(path)
        if fault_of(path) is None and is_shared(path):
            return


def make_sticky(path: str) -> None:
    """Create the folder ``path``, where all users may create files but not remove each other's.

    Raises OSError, such as FileExistsError.  The folder appears with its final mode, whatever the
    umask: a process killed here leaves no folder that others cannot use.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    folder, name = os.path.split(path.rstrip("/"))
    unfinished = f"{folder}/{UNFINISHED}{name}.{os.getpid()}.{next_ticket()}"
    try:
        os.mkdir(unfinished)
        os.chmod(unfinished, MODE)
        os.rename(unfinished, path)
    finally:
        with suppress(OSError):  # it was renamed
            os.rmdir(unfinished)


def fault_of(path: str, *, follow_links: bool = False) -> FolderFault | None:
    """Return why ``path`` cannot be a ledger's folder, ignoring write permission, or None."""
    if not os.path.isabs(path):
        return FolderFault(path, "relative", f"{path} is not an absolute path")
    try:
        mode = os.stat(path, follow_symlinks=follow_links).st_mode
    except OSError as error:
        code: FaultCode = "closed" if error.errno == errno.EACCES else "missing"
        return FolderFault(path, code, f"{path}: {error.strerror}")
    kind = _mount_of(path)[1]
    faults: list[tuple[bool, FaultCode, str]] = [
        (not stat.S_ISDIR(mode), "no_folder", " is not a folder"),
        (
            bool(mode & 0o022) and not mode & stat.S_ISVTX,
            "not_sticky",
            " is not sticky, so any user could remove another user's leases",
        ),
        (not os.access(path, os.R_OK | os.X_OK), "closed", ": no permission to read it"),
        (kind in _OVER_A_NETWORK, "network", f" is on a network file system ({kind})"),
    ]
    found = (FolderFault(path, code, path + words) for is_so, code, words in faults if is_so)
    return next(found, None)


def can_be_made(path: str) -> bool:
    """Whether this process could create the missing folder ``path``."""
    above = os.path.dirname(path)
    return not os.path.lexists(path) and os.access(above, os.W_OK | os.X_OK)


def _mount_of(path: str) -> tuple[str, str]:
    """Return the mount point above ``path`` and its file system type; "" if unknown.

    In a line of mountinfo the fifth field is the mount point; the type follows the hyphen.
    """
    path, found = os.path.realpath(path), ("", "")
    for line in filter(None, text_in(_MOUNTS).split("\n")):
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(found[0]):
            found = (point, after.split()[0])
    return found


def is_private(path: str) -> bool:
    """Whether this is a container with its own folder, not one mounted from outside.

    With the host's IPC namespace (docker run --ipc=host), /dev/shm is the host's.
    """
    point = _mount_of(path)[0]
    is_shared = point == os.path.realpath(path) or (
        point == "/dev/shm" and _is_namespace("ipc", _INITIAL_IPC_NAMESPACE)
    )
    return is_container() and not is_shared


def is_container() -> bool:
    """Whether this process is in a container, or in a different pid namespace from the host."""
    is_initial = _is_namespace("pid", _INITIAL_PID_NAMESPACE)
    if is_initial is None:
        return False
    return not is_initial or any(os.path.exists(each) for each in _CONTAINER_FILES)


def _is_namespace(kind: str, inode: int) -> bool | None:
    """Whether this process's namespace of this kind has that inode; None if /proc lacks it."""
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino == inode
    except OSError:
        return None
