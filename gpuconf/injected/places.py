"""A place on a GPU for each process that computes in a `gpuconf run`.

The run leases memory for a fixed number of processes.  Each process that creates devices locks one
byte in the file of each lease for its lifetime.  These locks also keep the lease alive if its
holder is killed.

Runs on Python 2.7, and on 3.5 and newer, with the standard library only.  This file also runs by
itself.
"""

import errno
import os
import sys

if sys.platform != "win32":
    import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST = 1 << 24  # the first place's byte, well past the lease's own byte at 0 and its note
RANKS = (
    "LOCAL_RANK",  # torchrun
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "HOROVOD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
)

_taken = {}  # type: dict[str, int]  # lease path -> pid with a place in it
_WAY_OF_ACCESS = 3  # O_ACCMODE, which os lacks in Python 2.7


class NoPlaceError(RuntimeError):
    """The run has no place left for another process that computes on the GPU."""


def take_places(leases, processes, uuids, names={}):  # noqa: B006  # only read
    # type: (Mapping[str, str], int, Sequence[str], Mapping[str, str]) -> None
    """Take one place on each GPU of ``uuids`` for this process, for as long as it lives.

    ``leases`` maps a GPU's UUID to the file of the run's lease; places are not counted on a GPU
    without a lease. ``processes`` is the number of places on each GPU. ``uuids`` are the GPUs that
    this process is about to use, and ``names`` their names in errors. A second call in the same
    process has no effect; a forked child takes its own places.

    Raises NoPlaceError if all places of a GPU are taken, or if its lease has ended.
    """
    new = []  # type: list[tuple[str, int, int]]
    try:
        for uuid in uuids:
            path = leases.get(uuid)
            if path is not None and _taken.get(path) != os.getpid():
                new.append((path,) + _take(path, names.get(uuid, uuid), processes))
                _taken[path] = os.getpid()
    except BaseException:
        for path, descriptor, place in new:
            _taken.pop(path, None)
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, FIRST + place)
        raise


def leave_places():
    # type: () -> None
    """Release this process's places, for a process that uses no GPU after all."""
    for path in [path for path in _taken if _taken[path] == os.getpid()]:
        descriptor = _descriptor_of(path)
        if descriptor is not None:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 0, FIRST)
        del _taken[path]


def has_place(path):
    # type: (str) -> bool
    """Whether this process has a place in that lease, and so must not open and close its file.

    Closing any descriptor of a file drops all POSIX locks that the process holds on it.
    """
    taken = [each for each in _taken if _taken[each] == os.getpid()]
    try:
        return any(os.path.samefile(path, each) for each in taken)
    except OSError:  # the file is gone
        return False


def card_of_rank(uuids, environ=os.environ):
    # type: (Sequence[str], Mapping[str, str]) -> Sequence[str]
    """Return the GPUs that a PyTorch process uses: only one of them if it has a local rank."""
    for name in RANKS:
        rank = environ.get(name, "")
        if len(uuids) > 1 and rank.isdigit():
            return [uuids[int(rank) % len(uuids)]]
    return uuids


def _take(path, name, processes):
    # type: (str, str, int) -> tuple[int, int]
    """Lock a free place of the lease; return the descriptor, to be kept open, and the place."""
    descriptor = _descriptor_of(path)
    if descriptor is None:
        raise _ended(path, name)
    # Locks taken by this process before it started the program (exec) count as free here.
    for place in range(processes):
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, FIRST + place)
        except (IOError, OSError) as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
        else:
            if not os.fstat(descriptor).st_nlink:  # removed in the meantime: its holder had ended
                raise _ended(path, name)
            return descriptor, place
    those = "%d process%s" % (processes, "" if processes == 1 else "es")
    anew = "`gpuconf run --processes %d -- ...`"
    if "GPUCONF_SHELL" in os.environ:  # its plan cannot be changed from inside
        anew = "leave this shell (exit); `gpuconf shell --processes %d`"
    raise NoPlaceError(
        "%s already has the %s this run was planned for\n"
        "  hint: %s splits the memory between %d"
        % (name, those, anew % (processes + 1,), processes + 1)
    )


def _ended(path, name):
    # type: (str, str) -> NoPlaceError
    return NoPlaceError(
        "the reservation of this run on %s has ended: %s is gone or not writable\n"
        "  hint: restart the whole program: `gpuconf run -- ...`" % (name, path)
    )


def _descriptor_of(path):
    # type: (str) -> int | None
    """Return a descriptor of the lease's file for locking; None if there is none.

    Reuses a descriptor that this process already has. In the process that holds the lease, closing
    a second descriptor would end the lease, and any library may close descriptors that it does not
    know.
    """
    try:
        file = os.stat(path)
        for name in os.listdir("/proc/self/fd"):
            if _is_usable(int(name), file):
                return int(name)
        return os.open(path, os.O_RDWR)
    except (IOError, OSError):
        return None


def _is_usable(descriptor, file):
    # type: (int, os.stat_result) -> bool
    """Whether the descriptor is open on ``file`` for writing."""
    try:
        mine = os.fstat(descriptor)
        if (mine.st_dev, mine.st_ino) != (file.st_dev, file.st_ino):
            return False
        return fcntl.fcntl(descriptor, fcntl.F_GETFL) & _WAY_OF_ACCESS != os.O_RDONLY
    except (IOError, OSError):  # listdir's own descriptor, now closed
        return False
