"""What is known about this machine's GPUs: plain values, any of which may be unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

ProblemCode = Literal[
    "no_binding",  # nvidia-ml-py is missing, broken, or shadowed by another package
    "no_library",  # libnvidia-ml.so.1 cannot be loaded
    "not_loaded",  # the driver is installed, but its kernel module is not loaded
    "no_permission",
    "too_old",  # the driver, for this nvidia-ml-py
    "mismatch",  # kernel module and library have different versions
    "lost",  # a GPU has fallen off the bus
    "no_answer",  # NVML hangs
    "other",
]


class NvmlProblem(NamedTuple):
    """Why NVML could not be queried: a code for programs, a sentence for people."""

    code: ProblemCode
    sentence: str


class GpuProcess(NamedTuple):
    """A process that uses memory on a GPU, as far as the driver knows."""

    pid: int
    used_bytes: int | None = None
    name: str | None = None
    kind: str = "compute"  # or "graphics"
    busy_percent: int | None = None  # the part of the time in which its kernels were running


class CardLease(NamedTuple):
    """GPU memory that another process has leased; see ``gpuconf.machine.leases``.

    ``used_bytes`` is what that process and its children have already taken, and ``pids`` are their
    process ids; None if unknown. ``most_bytes`` is the sum of its limit and its context. With
    ``is_estimate``, the driver does not report their use, and ``used_bytes`` follows from the
    growth of the GPU's use. ``since`` is in seconds since 1970. ``is_elsewhere`` means that ``pid``
    belongs to another PID namespace, ``is_ours`` that the holder belongs to the current user, and
    ``is_parent`` that the current process descends from it.
    """

    pid: int
    lease_bytes: int
    used_bytes: int | None = None
    program: str | None = None
    user: str | None = None
    profile: str | None = None
    since: float | None = None
    is_ours: bool | None = None
    pids: tuple[int, ...] | None = None
    is_elsewhere: bool = False
    is_parent: bool = False
    is_estimate: bool = False
    most_bytes: int | None = None

    @property
    def promised_bytes(self) -> int:
        """What the holder may still take: the entire lease if its use is unknown."""
        return max(0, self.lease_bytes - (self.used_bytes or 0))


class Cap(NamedTuple):
    """A limit on a GPU's memory that is not the profile's: the kernel's, for a group of processes.

    ``name`` is for people. ``used_bytes`` of ``limit_bytes`` are in use by the group. With
    ``is_policy``, the limit is an administrator's, for one user's programs; reservations count as
    used, and it also applies to profiles without a limit.
    """

    name: str
    limit_bytes: int
    used_bytes: int = 0
    is_policy: bool = False


class GpuQuota(NamedTuple):
    """The number of GPUs that an administrator allows one user's programs; None for no limit.

    ``name`` is for people. ``uuids`` are the UUIDs of the GPUs that the user's other programs are
    using.
    """

    name: str
    most: int | None = None
    uuids: tuple[str, ...] = ()


RAY, SLURM = "ray", "slurm"


class Scheduler(NamedTuple):
    """A scheduler that assigns parts of GPUs.

    ``name`` is for people. ``asking`` is how a job requests ``{part}`` of a GPU, and ``title`` is a
    pattern for the first word on the command line of the processes that it starts.
    """

    name: str
    asking: str
    title: str


SCHEDULERS = {
    RAY: Scheduler("Ray", "num_gpus={part}", r"ray::\S"),
    SLURM: Scheduler("Slurm", "--gres=shard:N for {part} of the GPU", r"slurmstepd: \[[^\]]+\]"),
}


class GpuShare(NamedTuple):
    """A scheduler's assignment to this process, for each GPU that it sees.

    ``part`` is the fraction of the GPU's memory, 1 for all of it.  ``outside_bytes`` is the memory
    held by programs that the scheduler did not start; None if unknown. ``assignment`` describes the
    full assignment, such as "0.4 of GPU 0"; different assignments have different texts.
    """

    scheduler: str
    part: float
    assignment: str = ""
    outside_bytes: int | None = None


NO_GPU = "no GPU"


class Assigned(NamedTuple):
    """The part of each GPU that ``scheduler`` (ray, slurm) has assigned; 1 for whole GPUs.

    ``part`` is 0 for no GPU at all, and None if it is unknown; ``why`` explains both in words.
    ``words`` become the ``assignment`` of a :class:`GpuShare`.
    """

    scheduler: str
    part: float | None
    words: str = ""
    why: str | None = None


class Gpu(NamedTuple):
    """One GPU, or one MIG instance of a GPU.  Unknown is None, never 0.

    ``index`` is the number that NVML and nvidia-smi print (PCI order).  A MIG instance has its
    GPU's index, and its GPU instance and compute instance in ``mig_ids``.  ``free_bytes`` is
    NVML's figure at the time of the query.  ``total_bytes`` excludes the driver's own reserve, if
    the driver reports it (see ``gpuconf.machine.cards.nvml``).  ``own_bytes`` is the memory held by
    the planning process itself, which it may use again.  ``is_exclusive`` means that the GPU
    accepts one process at a time.

    ``leases`` are those of other processes, and ``ahead`` is the number of programs that are
    waiting for this GPU ahead of the current one. ``caps`` are limits set by the kernel and by an
    administrator. ``share`` is the part of the GPU that a scheduler has assigned. With
    ``is_unified``, the GPU uses the host's memory: total and free are the host's, and what is in
    use is unknown. ``busy_percent`` is the fraction of the last second in which kernels were
    running; only `gpuconf ps` reads it.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which is unused here
    uuid: str | None = None
    name: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    used_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    display_active: bool | None = None
    pci_bus_id: str | None = None
    mig_enabled: bool | None = None
    mig_instances: tuple[Gpu, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    mig_ids: tuple[int, int] | None = None
    own_bytes: int = 0
    is_exclusive: bool | None = None
    leases: tuple[CardLease, ...] = ()
    ahead: int = 0
    caps: tuple[Cap, ...] = ()
    share: GpuShare | None = None
    is_unified: bool = False
    busy_percent: int | None = None

    @property
    def identity(self) -> object:
        """A value that stays the same between two queries, even if the driver reports no UUID."""
        return self.uuid or (self.index, self.mig_ids)

    @property
    def promised_bytes(self) -> int:
        """The part of the free memory that other processes may still take under their leases."""
        return sum(lease.promised_bytes for lease in self.leases)

    @property
    def estimated(self) -> tuple[CardLease, ...]:
        """The leases with one estimate for several holders; how they share it is an assumption."""
        found = tuple(lease for lease in self.leases if lease.is_estimate)
        return found if len(found) > 1 else ()

    @property
    def unleased(self) -> tuple[GpuProcess, ...]:
        """The processes that use memory without a lease.

        Where a holder's processes are unknown, a nameless process in the driver's list may be one
        of them.
        """
        leasing = {lease.pid for lease in self.leases if not lease.is_elsewhere}
        leasing |= {pid for lease in self.leases for pid in lease.pids or ()}
        is_whole = all(lease.pids is not None for lease in self.leases)
        others = [each for each in self.processes or () if each.pid not in leasing]
        return tuple(each for each in others if is_whole or each.name)

    @property
    def holders(self) -> tuple[tuple[GpuProcess | None, CardLease | None], ...]:
        """Each process with its own lease, if any, followed by the leases of unlisted processes."""
        here = {lease.pid: lease for lease in self.leases if not lease.is_elsewhere}
        listed = [(each, here.pop(each.pid, None)) for each in self.processes or ()]
        others = [*here.values(), *(lease for lease in self.leases if lease.is_elsewhere)]
        return (*listed, *((None, lease) for lease in others))

    def mapped(self, change: Callable[[Gpu], Gpu]) -> Gpu:
        """Return the result of ``change`` for this GPU, and for each of its MIG instances."""
        return change(self)._replace(mig_instances=tuple(map(change, self.mig_instances)))

    def with_own_bytes(self, pid: int) -> Gpu:
        """Return a copy whose ``own_bytes`` is what the driver lists for the process ``pid``."""
        held = [each.used_bytes or 0 for each in self.processes or () if each.pid == pid]
        return self._replace(own_bytes=sum(held))


class Inventory(NamedTuple):
    """The machine's GPUs in NVML's order, and the reason if there are none.

    ``problem`` is one human-readable sentence, set if NVML could not be queried at all (no library,
    no driver). Then ``gpus`` is empty and nothing is known about the GPUs: a framework may still
    see some (Jetson, WSL without the library). Programs make decisions based on ``problem_code``,
    never on the sentence. ``unassigned`` says that a scheduler has given this process no GPU, and
    ``unshared`` says why its share of a GPU is unknown; both are human-readable, as are ``notes``.
    ``quota`` is what an administrator's policy allows.
    """

    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None
    problem: str | None = None
    problem_code: ProblemCode | None = None
    unassigned: str | None = None
    unshared: str | None = None
    quota: GpuQuota | None = None
    notes: tuple[str, ...] = ()

    def mapped(self, change: Callable[[Gpu], Gpu]) -> Inventory:
        """Return a copy with the result of ``change`` for each GPU and MIG instance."""
        return self._replace(gpus=tuple(gpu.mapped(change) for gpu in self.gpus))

    @classmethod
    def unknown(cls, problem: NvmlProblem) -> Inventory:
        """Return the inventory of a machine whose NVML could not be queried."""
        return cls(problem=problem.sentence, problem_code=problem.code)
