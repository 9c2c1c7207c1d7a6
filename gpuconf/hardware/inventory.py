"""What is known of this machine's GPUs: plain values, every one of which may be unknown."""

from __future__ import annotations

from gpuconf.records import NamedTuple

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from typing import Literal

    ProblemCode = Literal[
        "no_binding",  # nvidia-ml-py is missing, broken, or another package bears its name
        "no_library",  # libnvidia-ml.so.1 cannot be loaded
        "not_loaded",  # the driver is installed, its kernel module not loaded
        "no_permission",
        "too_old",  # the driver, for this nvidia-ml-py
        "mismatch",  # kernel module and library are of different versions
        "lost",  # a GPU has fallen off the bus
        "no_answer",  # NVML hangs
        "other",
    ]
else:
    ProblemCode = str  # the value in JSON


class NvmlProblem(NamedTuple):
    """Why NVML could not be asked: a code for programs, a sentence for people."""

    code: ProblemCode
    sentence: str


class GpuProcess(NamedTuple):
    """A process that holds memory on a GPU, as far as the driver knows."""

    pid: int
    used_bytes: int | None = None
    name: str | None = None
    kind: str = "compute"  # or "graphics"


class CardLease(NamedTuple):
    """Memory of a GPU that another process has been promised; see ``gpuconf.leases``.

    ``used_bytes`` is what that process and its children have taken already, and ``pids`` are
    their numbers; None where that is not known.  ``since`` is in seconds since 1970.
    ``is_elsewhere`` says that ``pid`` counts in another pid namespace, ``is_ours`` that the holder
    is of the user who asks, ``is_parent`` that the process which asks descends from it.
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

    @property
    def promised_bytes(self) -> int:
        """What it may still take: all of it if its use is unknown."""
        return max(0, self.lease_bytes - (self.used_bytes or 0))


class Cap(NamedTuple):
    """What of a GPU may be taken by a rule that is not ours: the kernel's, MPS's, HAMi's.

    ``name`` is for people.  ``used_bytes`` of ``limit_bytes`` are taken.  With ``is_of_process``
    each process has the whole limit; else those in this group or container share it.
    """

    name: str
    limit_bytes: int
    used_bytes: int = 0
    is_of_process: bool = False


RAY, SLURM, KAI = "ray", "slurm", "kai"
SCHEDULERS = {RAY: "Ray", SLURM: "Slurm", KAI: "KAI"}


class Share(NamedTuple):
    """What a scheduler has assigned to this process of each GPU that it sees.

    ``part`` of the card's memory, 1 for all of it.  ``outside_bytes`` is what programs hold that
    the scheduler did not start; None where that is not known.  ``assignment`` is the whole of it in
    words, such as "0.4 of GPU 0"; another one has other words.
    """

    scheduler: str
    part: float
    assignment: str = ""
    outside_bytes: int | None = None


class Gpu(NamedTuple):
    """One GPU, or one MIG instance of a GPU.  Unknown is None, never 0.

    ``index`` is the number NVML and nvidia-smi print (PCI order); a MIG instance bears its
    card's, and in ``mig_ids`` its GPU instance and compute instance.  ``free_bytes`` is what
    NVML calls free at the moment of asking; ``total_bytes`` leaves out what the driver keeps
    for itself, where it says how much that is (see ``gpuconf.hardware.nvml``).  ``own_bytes`` is
    what the process that plans holds itself, and what it may have again.  ``is_exclusive`` says
    that the card takes one process at a time.

    ``leases`` are other processes', and ``ahead`` is how many programs wait for this GPU and come
    before the one that asks.  ``caps`` are the kernel's, of the group that this process is in.
    ``share`` is what a scheduler has assigned of it.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
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
    share: Share | None = None

    @property
    def identity(self) -> object:
        """What stays the same between two looks at it, also where the driver reports no UUID."""
        return self.uuid or (self.index, self.mig_ids)

    @property
    def promised_bytes(self) -> int:
        """What of the free memory others' leases may still take."""
        return sum(lease.promised_bytes for lease in self.leases)

    @property
    def unleased(self) -> tuple[GpuProcess, ...]:
        """The processes that have taken memory outside of every lease."""
        leasing = {lease.pid for lease in self.leases if not lease.is_elsewhere}
        leasing |= {pid for lease in self.leases for pid in lease.pids or ()}
        return tuple(each for each in self.processes or () if each.pid not in leasing)

    @property
    def holders(self) -> tuple[tuple[GpuProcess | None, CardLease | None], ...]:
        """Each process with its own lease, if it has one; then the leases of those not listed."""
        here = {lease.pid: lease for lease in self.leases if not lease.is_elsewhere}
        listed = [(each, here.pop(each.pid, None)) for each in self.processes or ()]
        others = [*here.values(), *(lease for lease in self.leases if lease.is_elsewhere)]
        return (*listed, *((None, lease) for lease in others))

    def with_own_bytes(self, pid: int) -> Gpu:
        """The same, with ``own_bytes`` as the driver lists it for the process ``pid``."""
        held = [each.used_bytes or 0 for each in self.processes or () if each.pid == pid]
        instances = tuple(each.with_own_bytes(pid) for each in self.mig_instances)
        return self._replace(own_bytes=sum(held), mig_instances=instances)


class Inventory(NamedTuple):
    """The machine's GPUs in NVML's order, and why there are none if there are none.

    ``problem`` is one sentence for people, set where NVML could not be asked at all
    (no library, no driver); then ``gpus`` is empty and nothing is known of the GPUs:
    a framework may still see some (Jetson, WSL without the library).  Programs decide by
    ``problem_code``, never by the sentence.  ``mps_is_running`` is known where a plan needs it.
    ``unassigned`` says that a scheduler has given this process no GPU, and ``unshared`` why what
    it has given of one is not known; both are for people.
    """

    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None
    problem: str | None = None
    problem_code: ProblemCode | None = None
    mps_is_running: bool | None = None
    unassigned: str | None = None
    unshared: str | None = None

    @classmethod
    def unknown(cls, problem: NvmlProblem) -> Inventory:
        """The inventory of a machine whose NVML could not be asked."""
        return cls(problem=problem.sentence, problem_code=problem.code)
