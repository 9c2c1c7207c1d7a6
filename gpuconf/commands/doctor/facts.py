"""The input to all checks: facts about one machine, gathered once.  None means unknown.

Each field of `Facts` comes from one reader in ``gpuconf.commands.doctor.gathering``.  If the reader
crashes, the field keeps its default here: unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuconf.basics.setting import Setting
from gpuconf.errors import GpuconfError
from gpuconf.machine.cards import Inventory
from gpuconf.machine.cards.health import CardHealth
from gpuconf.machine.cards.holders import Process
from gpuconf.machine.leases.folder import FolderFault
from gpuconf.machine.policy import Policy
from gpuconf.machine.schedulers import Assigned
from gpuconf.planner import Plan
from gpuconf.profile.model import Note


class DeviceNode(NamedTuple):
    """A file such as /dev/nvidia0: its mode as ls shows it, its group, whether we may open it."""

    path: str
    mode: str = ""
    group: str | None = None
    may_open: bool = True


class Xid(NamedTuple):
    """An error that the driver wrote to the kernel log: its number, the GPU, the line."""

    number: int
    pci_bus_id: str | None
    line: str


class System(NamedTuple):
    """The machine below the frameworks: kernel, driver files, container, memory.

    ``module_version`` is the version of the loaded kernel module, from /proc/driver/nvidia/version,
    and ``library_version`` the one in the file name of the user library that NVML loads.
    ``distributions`` are ID and ID_LIKE from /etc/os-release, the closest first. ``pci_cards`` are
    the PCI addresses of NVIDIA's display controllers; None if the bus cannot be read.
    ``other_gpu`` describes a GPU that programs may use but that NVML may not know, such as an AMD
    or Jetson GPU. ``has_modprobe`` is about nvidia-modprobe, which creates missing device files.
    ``container`` is docker, podman, kubernetes, lxc or another name. ``xids`` is None if no kernel
    log is readable.
    """

    module_version: str | None = None
    library_version: str | None = None
    distributions: tuple[str, ...] = ()
    pci_cards: tuple[str, ...] | None = None
    other_gpu: str | None = None
    nouveau: bool = False
    nodes: tuple[DeviceNode, ...] = ()
    has_modprobe: bool = False
    container: str | None = None
    is_wsl: bool = False
    is_windows: bool = False
    has_dxg: bool = False
    has_wsl_library: bool = False
    xids: tuple[Xid, ...] | None = None
    available_bytes: int | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None

    @property
    def spills(self) -> str | None:
        """The system if its driver uses host memory when a GPU's memory runs out."""
        return "WSL2" if self.is_wsl else "Windows" if self.is_windows else None


class Package(NamedTuple):
    """An installed distribution: its normalized name, and its requirements."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


class TensorFlowBuild(NamedTuple):
    """The wheel's tensorflow/python/platform/build_info.py."""

    is_cuda: bool = False
    is_rocm: bool = False
    cuda_version: str | None = None
    cudnn_version: str | None = None
    compute_capabilities: tuple[str, ...] = ()


class TorchBuild(NamedTuple):
    """The wheel's torch/version.py; both versions are None in a CPU build.

    ``unknown_options`` are the options in its allocator variables that it does not know.
    """

    cuda_version: str | None = None
    rocm_version: str | None = None
    unknown_options: tuple[str, ...] = ()


class JaxBuild(NamedTuple):
    """What the installed jaxlib reads; empty if unknown.

    ``fractions`` are its variables for a memory fraction, and ``allocators`` are its values for
    XLA_PYTHON_CLIENT_ALLOCATOR.
    """

    fractions: tuple[str, ...] = ()
    allocators: tuple[str, ...] = ()


class CudaLibrary(NamedTuple):
    """A library that the wheel opens at startup: where it was found, and why it does not open.

    ``place`` describes where it was found; ``version`` is the version that the library reports.
    """

    name: str
    soname: str
    path: str | None = None
    place: str | None = None
    problem: str | None = None
    version: str | None = None


class KerasChoice(NamedTuple):
    """The backend that Keras 3 will use, and its source: a variable, a file, or the default."""

    backend: str = "tensorflow"
    set_by: str = "Keras's default"
    problem: str | None = None


class Interpreter(NamedTuple):
    """The Python that is examined, and where it looks for packages.

    ``kind`` is "virtual environment" or "conda environment"; None for a system Python. ``is_other``
    is True if it is not the Python that runs gpuconf.
    """

    path: str
    version: tuple[int, ...]
    prefix: str
    kind: str | None = None
    paths: tuple[str, ...] = ()
    is_other: bool = False

    def __str__(self) -> str:
        """In human-readable form: its path, its version, and the kind of environment."""
        number = ".".join(map(str, self.version))
        return f"{self.path} (Python {number}{f', {self.kind}' if self.kind else ''})"


class Packages(NamedTuple):
    """The packages installed for one Python, read without importing any.

    ``interpreter`` is that Python, and ``on_path`` a different one that comes first in PATH.

    ``tensorflow``, ``torch`` and ``jax`` are their builds, None if not installed or unknown.
    ``libraries`` is empty if there is no CUDA build of TensorFlow, ``jax_libraries`` if JAX has no
    CUDA plugin; the latter are located but not opened.
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
    """The profile that applies, the reason, and its plan on this machine.

    ``profile_error`` is set if it cannot be loaded, ``plan_error`` if it cannot be applied on this
    machine; ``settings`` are the variables that it would set, each with the result. ``notes`` are
    the profile's own notes, about its author. ``leases`` says whether it leases memory.
    ``assigned`` is the share that a scheduler has assigned to this process.
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


class LedgerFacts(NamedTuple):
    """The lease ledger as a program would find it now.

    ``named`` is $GPUCONF_LEASES.  ``path`` is the folder in use; if ``is_there`` is false, the one
    that the first program would create; None if none is usable. ``faults`` are the faults of the
    folders before it, or of all folders.

    For a folder that exists, ``mode`` is as ls shows it; ``is_open`` is True if every user may
    write to it, ``is_roots`` if root owns the folder, and ``is_full`` if its file system has no
    room for another file. ``card_faults`` say why no program, or not every program, can lease
    memory on a GPU, and ``problem`` why no program can lease at all. ``granted`` and ``waiting``
    count the leases and the places in queues.
    """

    named: str | None = None
    path: str | None = None
    is_there: bool = False
    is_read_only: bool = False
    is_private: bool = False
    faults: tuple[FolderFault, ...] = ()
    mode: str = ""
    is_open: bool = True
    is_roots: bool = False
    is_full: bool = False
    card_faults: tuple[FolderFault, ...] = ()
    problem: str | None = None
    granted: int = 0
    waiting: int = 0


class Facts(NamedTuple):
    """All facts; ``environ`` is the user's environment."""

    inventory: Inventory = Inventory()
    health: Mapping[int, CardHealth] = {}
    system: System = System()
    processes: Mapping[int, Process] = {}
    packages: Packages = Packages()
    profile: ProfileFacts = ProfileFacts()
    ledger: LedgerFacts | None = None
    policy: Policy | None = None
    environ: Mapping[str, str] = {}

    @property
    def has_gpu(self) -> bool:
        """Whether NVML lists a GPU."""
        return bool(self.inventory.gpus)

    @property
    def expects_gpu(self) -> bool:
        """Whether there is any sign of an NVIDIA GPU, working or not."""
        system = self.system
        seen = system.pci_cards or system.module_version or system.nodes
        return self.has_gpu or bool(seen) or (system.has_dxg and system.has_wsl_library)
