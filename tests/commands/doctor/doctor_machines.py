"""Machines as facts: a sound one with one GPU, and ways to change it."""

from __future__ import annotations

from typing import Any

from gpuconf.basics.setting import Setting
from gpuconf.basics.units import GIB
from gpuconf.commands.doctor.facts import (
    CudaLibrary,
    DeviceNode,
    Facts,
    Interpreter,
    LedgerFacts,
    Package,
    Packages,
    ProfileFacts,
    System,
    TensorFlowBuild,
)
from gpuconf.machine.cards import Gpu, GpuProcess, Inventory
from gpuconf.machine.cards.health import CardHealth
from gpuconf.machine.cards.holders import Process
from gpuconf.machine.cards.nvml import PROBLEMS
from gpuconf.planner import GpuPlan, Plan
from gpuconf.profile.model import Profile

CARD = Gpu(
    0,
    uuid="GPU-0e8d35e3-0000-4000-8000-000000000000",
    name="NVIDIA GeForce RTX 3060",
    total_bytes=12 * GIB,
    free_bytes=9 * GIB,
    used_bytes=3 * GIB,
    compute_capability=(8, 6),
    display_active=False,
    processes=(GpuProcess(4242, 3 * GIB, "python3"),),
)
NODES = tuple(
    DeviceNode(f"/dev/{name}", "crw-rw-rw-", "root")
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm")
)
MODULE = "570.86.15"
INVENTORY = Inventory((CARD,), MODULE, (12, 8))
RUNNING = Process(4242, "python3", "alice", is_ours=False, started=1e9, state="S", parent=1)
BUILD = TensorFlowBuild(
    is_cuda=True,
    cuda_version="12.5.1",
    cudnn_version="9",
    compute_capabilities=("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"),
)
CUDNN = CudaLibrary("cudnn", "libcudnn.so.9", "/nv/libcudnn.so.9", "pip", None, "9.3.0")
CUDART = CudaLibrary("cudart", "libcudart.so.12", "/nv/libcudart.so.12", "pip")
TF_REQUIRES = (
    "keras>=3.12.0",
    "numpy>=1.26.0",
    'nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',
)


def installed(*packages: tuple[str, str] | tuple[str, str, tuple[str, ...]]) -> dict[str, Package]:
    """Packages by name, from (name, version, requirements)."""
    return {package[0]: Package(*package) for package in packages}


PYTHON = Interpreter("/venv/bin/python", (3, 11, 7), "/venv", "virtual environment")
PACKAGES = Packages(
    interpreter=PYTHON,
    python=(3, 11),
    installed=installed(
        ("tensorflow", "2.21.0", TF_REQUIRES),
        ("keras", "3.15.1"),
        ("numpy", "2.4.6"),
        ("nvidia-cudnn-cu12", "9.3.0.75"),
        ("nvidia-ml-py", "13.615.71"),
        ("jax", "0.10.2", ("jaxlib<=0.10.2,>=0.10.1",)),
        ("jaxlib", "0.10.2"),
        ("jax-cuda12-plugin", "0.10.2"),
        ("jax-cuda12-pjrt", "0.10.2"),
    ),
    tensorflow=BUILD,
    libraries=(CUDART, CUDNN),
)
PROFILE = Profile("shared-desktop")
PLAN = Plan(
    PROFILE,
    gpus=(GpuPlan(CARD, limit_bytes=8 * GIB, arithmetic=("limit = 8192 MiB",)),),
    visible=(CARD,),
)
PROFILE_FACTS = ProfileFacts(
    "shared-desktop",
    "nothing else is set",
    name="shared-desktop",
    source="/configs/shared-desktop.yaml",
    keeps_free=True,
    plan=PLAN,
    settings=(Setting("TF_FORCE_GPU_ALLOW_GROWTH", "true", "true"),),
)
SYSTEM = System(
    module_version=MODULE,
    pci_cards=("0000:01:00.0",),
    nodes=NODES,
    xids=(),
    available_bytes=16 * GIB,
    shm_bytes=8 * GIB,
    shm_free_bytes=8 * GIB,
)
LEDGER = LedgerFacts(path="/run/gpuconf", is_there=True, mode="drwxrwxrwt")
SOUND = Facts(
    inventory=INVENTORY,
    health={0: CardHealth(ecc_enabled=True, compute_mode="default")},
    system=SYSTEM,
    processes={4242: RUNNING},
    packages=PACKAGES,
    profile=PROFILE_FACTS,
    ledger=LEDGER,
)
# No GPU, nothing that tells of one, and nothing installed.
BARE = Facts(inventory=Inventory.unknown(PROBLEMS[12]), system=System(pci_cards=()))


def system(**changes: Any) -> Facts:
    """The sound machine with another system below it."""
    return SOUND._replace(system=SYSTEM._replace(**changes))


def card(*, health: CardHealth | None = None, **changes: Any) -> Facts:
    """The sound machine with another GPU in it."""
    facts = SOUND._replace(inventory=INVENTORY._replace(gpus=(CARD._replace(**changes),)))
    return facts if health is None else facts._replace(health={0: health})


def profile(**changes: Any) -> Facts:
    """The sound machine with other facts of its profile."""
    return SOUND._replace(profile=PROFILE_FACTS._replace(**changes))
