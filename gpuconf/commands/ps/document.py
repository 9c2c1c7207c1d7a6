"""Who is using memory on each GPU, and who is waiting, as plain values for text and JSON."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from gpuconf.basics.display import shown_in_notebooks
from gpuconf.basics.json_shape import Bytes, Count, FieldRule, FromOne, json_shape

Percent = Annotated[int, FieldRule(minimum=0, maximum=100)]


class ProcessUsage(NamedTuple):
    """A process with a lease or memory on a GPU.  Unknown is None."""

    pid: Count
    """Its process id."""
    user: str | None = None
    """The owner's account."""
    program: str | None = None
    """The script that it runs, or else the program's name."""
    profile: str | None = None
    """Its gpuconf profile; None also for a program without gpuconf."""
    lease_bytes: Bytes | None = None
    """The memory reserved for it; None without a lease."""
    used_bytes: Bytes | None = None
    """The memory it and its children have taken; None if unknown."""
    since: str | None = None
    """When the lease was taken, or else when the process started; ISO 8601 with time zone."""
    kind: Annotated[str, FieldRule(enum=("compute", "graphics"))] = "compute"
    """What it uses the GPU for."""
    is_ours: bool | None = None
    """Whether it belongs to the current user."""
    is_elsewhere: bool = False
    """Whether its process id belongs to another pid namespace, such as a container's."""
    pids: tuple[Count, ...] | None = None
    """The processes that have taken it, with the driver's process ids; None if unknown."""
    is_estimate: bool = False
    """Whether its use is estimated, alone or with that of others (``estimated_bytes``)."""
    most_bytes: Bytes | None = None
    """Its memory limit and its context, which may be more than is reserved; None if unknown."""
    busy_percent: Percent | None = None
    """The fraction of the last seconds in which it computed on the GPU; None if not reported."""
    idle_since: str | None = None
    """With --idle, since when it has not computed, as far as the record goes; ISO 8601."""


class UserHoldings(NamedTuple):
    """The total that another user's processes hold on a GPU.  Unknown is None."""

    user: str | None
    """The account; None for processes whose owner is unknown."""
    process_count: FromOne
    """The number of processes."""
    lease_bytes: Bytes | None
    """The memory reserved for them; None if none of them has a lease."""
    used_bytes: Bytes | None
    """The memory they have taken; None if the driver does not report it for each of them."""


class LeaseBar(NamedTuple):
    """A GPU's memory in four parts, in bytes, which add up to its total."""

    others_bytes: Bytes
    """In use, but not by this user's processes as far as the driver reports."""
    ours_bytes: Bytes
    """In use by this user's processes."""
    promised_bytes: Bytes
    """Leased, but not yet taken."""
    free_bytes: Bytes
    """Free and not leased."""


class GpuUsage(NamedTuple):
    """A GPU or a MIG instance, and who is using its memory.  Unknown is None."""

    label: str
    """Its name in the tables: nvidia-smi's number, or 0.1 for the second MIG instance of GPU 0."""
    index: Count | None = None  # type: ignore[assignment]  # hides tuple.index, which is unused here
    """nvidia-smi's number; a MIG instance has its GPU's.  None if NVML does not list it."""
    mig_ids: tuple[Count, Count] | None = None
    """GPU instance and compute instance of a MIG instance."""
    uuid: str | None = None
    """The UUID that nvidia-smi -L prints."""
    name: str | None = None
    """The GPU's name."""
    total_bytes: Bytes | None = None
    """Its total memory, without the driver's reserve."""
    free_bytes: Bytes | None = None
    """Free memory as NVML reports it; leases are not subtracted."""
    bar: LeaseBar | None = None
    """Its memory in parts; None if unknown."""
    lists_processes: bool = False
    """Whether the driver lists processes; if it does not, only leases are known."""
    unlisted_bytes: Bytes | None = None
    """Memory in use by none of the processes that the driver lists: a display, programs in another
    container or virtual machine, and the driver itself.
    """
    estimated_bytes: Bytes | None = None
    """The estimate for several processes together, whose ``used_bytes`` is None; else None."""
    processes: tuple[ProcessUsage, ...] = ()
    """This user's processes on it, or all users' with --all-users."""
    others: tuple[UserHoldings, ...] = ()
    """A total for each of the other users; empty with --all-users."""
    busy_percent: Percent | None = None
    """The fraction of the last second in which a process computed on it; None if not reported."""


class LinePlace(NamedTuple):
    """A place in the queue for one GPU."""

    label: str
    """The GPU, as in `gpus`."""
    uuid: str | None
    """The UUID that nvidia-smi -L prints."""
    place: FromOne
    """Its position; 1 is next."""
    least_bytes: Bytes
    """The minimum memory that the program needs, including its context."""


class WaitingProcess(NamedTuple):
    """A program that is waiting for memory.  Unknown is None."""

    pid: Count
    """Its process id."""
    user: str | None
    """The owner's account."""
    program: str | None
    """The script that it runs, or else the program's name."""
    profile: str | None
    """Its gpuconf profile."""
    since: str | None
    """When it started waiting; ISO 8601 with time zone."""
    is_ours: bool | None
    """Whether it belongs to the current user."""
    is_elsewhere: bool
    """Whether its process id belongs to another pid namespace, such as a container's."""
    places: tuple[LinePlace, ...]
    """Its place in the queue of each acceptable GPU."""


class LedgerState(NamedTuple):
    """The folder of leases."""

    path: str | None = None
    """Its path; None if there is none."""
    problem: str | None = None
    """Why leases cannot be read."""
    is_private: bool = False
    """Whether only the programs of this container use it."""


@shown_in_notebooks
@json_shape(renamed={"cards": "gpus"})
class Holdings(NamedTuple):
    """Who is using memory on each GPU, and who is waiting."""

    made_at: str
    """When this was made; ISO 8601 with time zone."""
    cards: tuple[GpuUsage, ...] = ()
    """The GPUs, with MIG instances in place of their GPU; then GPUs that only have leases."""
    waiting: tuple[WaitingProcess, ...] = ()
    """The waiting programs of all users, in queue order."""
    ledger: LedgerState = LedgerState()
    """The source of the leases."""
    problem: str | None = None
    """Why the driver could not be queried."""
    policy: str | None = None
    """The administrator's policy that limits the current user, or why it is ignored."""
