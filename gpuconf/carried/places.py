"""A place on a GPU for each process that computes in a `gpuconf run`.

The run leases its memory for so many processes; each that makes devices locks one byte of each
lease's file for as long as it lives.  Those locks also keep the lease, should its holder be killed.

Python 2.7 and 3.5 to the newest, the standard library alone: this file also runs by itself.
"""

import errno
import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST = 1 << 24  # the first place's byte, far behind the lease's own at 0 and its note
RANKS = (
    "LOCAL_RANK",  # torchrun
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "HOROVOD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
)

_taken = {}  # type: dict[str, int]  # a lease's path -> the process that has a place in it
_WAY_OF_ACCESS = 3  # O_ACCMODE, which the os module of Python 2.7 lacks


class NoPlaceError(RuntimeError):
    """The run has no place left for another process that computes on the GPU."""


def take_places(leases, processes, uuids, names={}):  # noqa: B006  # only read
    # type: (Mapping[str, str], int, Sequence[str], Mapping[str, str]) -> None
    """Take one place on each card of ``uuids`` for this process, for as long as it lives.

    ``leases`` are the files of the run's leases by the UUID of their card; a card without one has
    no places to count.  ``processes`` is how many places each has.  ``uuids`` are the cards that
    this process is about to use, ``names`` what errors call them.  A second call of the same
    process changes nothing, and a forked child takes its own.

    Raises NoPlaceError where all places of a card are taken, or where its lease has ended.
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
    """Give back the places of this process, which uses no GPU after all."""
    for path in [path for path in _taken if _taken[path] == os.getpid()]:
        descriptor = _descriptor_of(path)
        if descriptor is not None:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 0, FIRST)
        del _taken[path]


def has_place(path):
    # type: (str) -> bool
    """Whether this process has a place in that lease: then it must not open it and close it again.

    To close any descriptor of a file drops all the POSIX locks that the process has on it.
    """
    taken = [each for each in _taken if _taken[each] == os.getpid()]
    try:
        return any(os.path.samefile(path, each) for each in taken)
    except OSError:  # it has gone
        return False


def card_of_rank(uuids, environ=os.environ):
    # type: (Sequence[str], Mapping[str, str]) -> Sequence[str]
    """The cards that a PyTorch process computes on: one of several where it has a local rank."""
    for name in RANKS:
        rank = environ.get(name, "")
        if len(uuids) > 1 and rank.isdigit():
            return [uuids[int(rank) % len(uuids)]]
    return uuids


def _take(path, name, processes):
    # type: (str, str, int) -> tuple[int, int]
    """Lock a free place of the lease; return the descriptor, never to be closed, and the place."""
    descriptor = _descriptor_of(path)
    if descriptor is None:
        raise _ended(path, name)
    # What the same process locked before it started this program (exec) counts as free here.
    for place in range(processes):
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, FIRST + place)
        except (IOError, OSError) as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
        else:
            if not os.fstat(descriptor).st_nlink:  # swept away in between: its holder had ended
                raise _ended(path, name)
            return descriptor, place
    those = (
        "1 process of this run computes"
        if processes == 1
        else ("%d processes of this run compute" % processes)
    )
    anew = "`gpuconf run --processes %d -- ...`"
    if "GPUCONF_SHELL" in os.environ:  # in which no other plan can be asked for
        anew = "leave this shell (exit); `gpuconf shell --processes %d`"
    raise NoPlaceError(
        "%s on %s already, and it was planned for no more\n"
        "  hint: %s plans for one more, each with a smaller part"
        % (those, name, anew % (processes + 1,))
    )


def _ended(path, name):
    # type: (str, str) -> NoPlaceError
    return NoPlaceError(
        "the lease of this run on %s has ended: %s has gone, or may not be written\n"
        "  hint: start the whole program anew: `gpuconf run -- ...`" % (name, path)
    )


def _descriptor_of(path):
    # type: (str) -> int | None
    """A descriptor of the lease's file to lock with; None where it cannot be had.

    One that this process has already, if any: in the holder of the lease, to close a second one
    would end it, and any library may close what it does not know.
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
    """Whether the descriptor is open on ``file``, to write."""
    try:
        mine = os.fstat(descriptor)
        if (mine.st_dev, mine.st_ino) != (file.st_dev, file.st_ino):
            return False
        return fcntl.fcntl(descriptor, fcntl.F_GETFL) & _WAY_OF_ACCESS != os.O_RDONLY
    except (IOError, OSError):  # the listing's own, which is closed by now
        return False
