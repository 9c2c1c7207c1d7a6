"""Everything the checks judge: facts of one machine, gathered once.  Unknown is None.

Each field of `Facts` comes from one reader in ``gpuconf.doctor.gathering``.  Where one crashes its
field keeps the default here: unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.errors import GpuconfError
from gpuconf.hardware import Inventory
from gpuconf.hardware.health import CardHealth
from gpuconf.hardware.holders import Process
from gpuconf.leases.folder import FolderFault
from gpuconf.planner import Plan
from gpuconf.profile.model import Note
from gpuconf.records import NamedTuple
from gpuconf.settings import Setting
from gpuconf.shares import Assigned


class DeviceNode(NamedTuple):
    """A file such as /dev/nvidia0: its mode as ls prints it, its group, and whether we may."""

    path: str
    mode: str = ""
    group: str | None = None
    may_open: bool = True


class Xid(NamedTuple):
    """An error that the driver wrote to the kernel's log: its number, the card, the line."""

    number: int
    pci_bus_id: str | None
    line: str


class System(NamedTuple):
    """The machine below the frameworks: kernel, driver files, container, memory.

    ``module_version`` is the loaded kernel module's, from /proc/driver/nvidia/version, and
    ``library_version`` the one in the file name of the user library that NVML loads.
    ``distributions`` are the system's ID and ID_LIKE of /etc/os-release, the nearest first.
    ``pci_cards`` are NVIDIA's display controllers on the bus, by address; None where there is no
    bus to look at.  ``has_modprobe`` is nvidia-modprobe, which makes missing device files.
    ``container`` is docker, podman, kubernetes, lxc or another's name.  ``xids`` is None where no
    log may be read.
    """

    module_version: str | None = None
    library_version: str | None = None
    distributions: tuple[str, ...] = ()
    pci_cards: tuple[str, ...] | None = None
    nouveau: bool = False
    nodes: tuple[DeviceNode, ...] = ()
    has_modprobe: bool = False
    container: str | None = None
    is_wsl: bool = False
    has_dxg: bool = False
    has_wsl_library: bool = False
    xids: tuple[Xid, ...] | None = None
    available_bytes: int | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    mps_is_running: bool | None = None


class Package(NamedTuple):
    """An installed distribution: its name as pip normalises it, and what it asks for."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


class TensorFlowBuild(NamedTuple):
    """What tensorflow/python/platform/build_info.py says of the wheel."""

    is_cuda: bool = False
    is_rocm: bool = False
    cuda_version: str | None = None
    cudnn_version: str | None = None
    compute_capabilities: tuple[str, ...] = ()


class TorchBuild(NamedTuple):
    """What torch/version.py says of the wheel: neither version is there in a build for the CPU.

    ``unknown_options`` are those of the variables for its allocator that it does not know.
    """

    cuda_version: str | None = None
    rocm_version: str | None = None
    unknown_options: tuple[str, ...] = ()


class JaxBuild(NamedTuple):
    """What the GPU client of the installed jaxlib takes: empty where it does not say.

    ``fractions`` are the variables that it reads a memory fraction from.
    """

    allocators: tuple[str, ...] = ()
    fractions: tuple[str, ...] = ()


class CudaLibrary(NamedTuple):
    """A library that the wheel opens when it starts: where it was found, why it will not open.

    ``place`` says in words where it was found; ``version`` is what the library says itself.
    """

    name: str
    soname: str
    path: str | None = None
    place: str | None = None
    problem: str | None = None
    version: str | None = None


class KerasChoice(NamedTuple):
    """The backend Keras 3 will take, and what says so: a variable, a file, or nothing."""

    backend: str = "tensorflow"
    set_by: str = "Keras's default"
    problem: str | None = None


class Interpreter(NamedTuple):
    """The Python that is looked at, and where it looks for packages.

    ``kind`` is "virtual environment" or "conda environment"; None for a Python of the system.
    ``is_other`` says that it is not the one that runs gpuconf.
    """

    path: str
    version: tuple[int, ...]
    prefix: str
    kind: str | None = None
    paths: tuple[str, ...] = ()
    is_other: bool = False

    def __str__(self) -> str:
        """For people: its path, its version, and what kind of environment it is in."""
        number = ".".join(map(str, self.version))
        return f"{self.path} (Python {number}{f', {self.kind}' if self.kind else ''})"


class Packages(NamedTuple):
    """What is installed for one Python, read without importing any of it.

    ``interpreter`` is that Python, and ``on_path`` another one, that PATH has first.

    ``tensorflow``, ``torch`` and ``jax`` are their builds, None where they are not installed or
    unknown.  ``libraries`` is empty where no CUDA build of TensorFlow is installed,
    ``jax_libraries`` where JAX has no plugin for CUDA; those are found, and not opened.
    """

    interpreter: Interpreter | None = None
    on_path: str | None = None
    python: tuple[int, int] = (0, 0)
    installed: Mapping[str, Package] = {}
    tensorflow: TensorFlowBuild | None = None
    torch: TorchBuild | None = None
    jax: JaxBuild | None = None
    libraries: tuple[CudaLibrary, ...] = ()
    jax_libraries: tuple[CudaLibrary, ...] = ()
    keras: KerasChoice = KerasChoice()

    def version(self, name: str) -> str | None:
        """The installed version of ``name``, or None."""
        package = self.installed.get(name)
        return package.version if package else None


class ProfileFacts(NamedTuple):
    """The profile that applies, why, and what it comes to here.

    ``profile_error`` is set where it cannot be loaded, ``plan_error`` where it cannot be carried
    out on this machine; ``settings`` are the variables it would set, each with its fate.
    ``notes`` are the profile's own, about who wrote it.  ``leases`` says whether it leases memory.
    ``assigned`` is what a scheduler has assigned to this process.
    """

    wanted: str = ""
    because: str | None = None
    name: str | None = None
    source: str | None = None
    notes: tuple[Note, ...] = ()
    keeps_free: bool | None = None
    leases: bool | None = None
    assigned: Assigned | None = None
    plan: Plan | None = None
    settings: tuple[Setting, ...] = ()
    profile_error: GpuconfError | None = None
    plan_error: GpuconfError | None = None


class LeaseHolder(NamedTuple):
    """A living lease, or place in the line of a card: whose it is, and how its process is.

    ``card`` is what people call the card, else the name of its folder.  ``is_foreign`` says that
    the process is in another pid namespace.  ``state`` is the kernel's letter; None for a foreign
    one, and for one that has ended and whose child keeps the lease.
    """

    card: str
    pid: int
    size_bytes: int
    is_waiting: bool = False
    is_foreign: bool = False
    state: str | None = None
    user: str | None = None
    is_ours: bool = True
    program: str | None = None


class LedgerFile(NamedTuple):
    """A file in a ledger; ``may_remove`` says whether our programs could remove it."""

    path: str
    user: str | None = None
    may_remove: bool = True


class LedgerContents(NamedTuple):
    """A folder of leases and what is in it.

    ``mode`` is as ls prints it; ``is_open`` says that every user may write, as far as the mode
    goes, ``is_roots`` that it is root's, and ``is_full`` that the file system has no room for
    another file.  ``left`` are leases of processes that have ended, ``strange`` what is not
    gpuconf's, and ``crowded`` the folders of cards with too many files to read.
    """

    path: str
    mode: str = ""
    is_open: bool = True
    is_roots: bool = False
    is_full: bool = False
    holders: tuple[LeaseHolder, ...] = ()
    left: tuple[LedgerFile, ...] = ()
    strange: tuple[LedgerFile, ...] = ()
    faults: tuple[FolderFault, ...] = ()
    crowded: tuple[str, ...] = ()


class MutexFacts(NamedTuple):
    """The ledger's mutex: who has held it all the time that we looked, and why it will not open.

    ``holder`` is None if there is none, and if /proc/locks does not show it; ``held_s`` is
    for how long we saw it held by one process.
    """

    path: str
    problem: str | None = None
    held_s: float = 0.0
    holder: int | None = None
    name: str | None = None
    user: str | None = None
    state: str | None = None
    is_ours: bool = True


class LedgerFacts(NamedTuple):
    """The ledger of leases as a program would find it now.

    ``named`` is $GPUCONF_LEASES.  ``path`` is the folder in use, or where ``is_there`` is false
    the one that the first program would make; None where none can be used.  ``faults`` are
    of the folders that come before it, or of all.  ``others`` are further folders with leases of
    this machine's cards; where ``named`` is set, nobody here counts those.
    """

    named: str | None = None
    path: str | None = None
    is_there: bool = False
    is_read_only: bool = False
    is_private: bool = False
    faults: tuple[FolderFault, ...] = ()
    contents: LedgerContents | None = None
    others: tuple[LedgerContents, ...] = ()
    mutex: MutexFacts | None = None

    @property
    def accounts(self) -> set[str]:
        """The accounts that findings may name."""
        users = {self.mutex.user if self.mutex else None}
        for contents in (self.contents, *self.others):
            if contents is not None:
                users |= {holder.user for holder in contents.holders}
                users |= {file.user for file in contents.left}
        return {user for user in users if user is not None}


class Facts(NamedTuple):
    """All that is known; ``environ`` is the environment as the user made it."""

    inventory: Inventory = Inventory()
    health: Mapping[int, CardHealth] = {}
    system: System = System()
    processes: Mapping[int, Process] = {}
    packages: Packages = Packages()
    profile: ProfileFacts = ProfileFacts()
    ledger: LedgerFacts | None = None
    environ: Mapping[str, str] = {}

    @property
    def has_gpu(self) -> bool:
        """Whether NVML lists a card."""
        return bool(self.inventory.gpus)

    @property
    def expects_gpu(self) -> bool:
        """Whether there is any sign of an NVIDIA GPU here, working or not."""
        system = self.system
        seen = system.pci_cards or system.module_version or system.nodes
        return self.has_gpu or bool(seen) or (system.has_dxg and system.has_wsl_library)
