"""Machines and profiles as values, for the tests of the planner."""

from __future__ import annotations

from gpuconf.basics.units import GIB, MIB, Amount
from gpuconf.machine.cards.inventory import CardLease, Gpu, Inventory
from gpuconf.planner import Plan
from gpuconf.planner.planning import make_plan
from gpuconf.profile.model import GpuSelection, MemoryRules, OnShortage, Profile

PROBLEM = "no driver is installed here"
ALL = GpuSelection()


def uuid(index: int) -> str:
    """The UUID of the GPU at ``index``: no two begin alike."""
    return f"GPU-{index:x}e8d35e3-0000-4000-8000-000000000000"


def card(index: int = 0, *, total: int | None = 11264, free: int | None = 9319) -> Gpu:
    """A GPU; sizes in MiB."""
    return Gpu(
        index,
        uuid=uuid(index),
        name="NVIDIA GeForce RTX 2080 Ti",
        total_bytes=None if total is None else total * MIB,
        free_bytes=None if free is None else free * MIB,
        compute_capability=(7, 5),
    )


def small_card(index: int, *, free: int = 1900) -> Gpu:
    """Another kind of GPU, slower and with 2 GiB."""
    gpu = card(index, total=2048, free=free)
    return gpu._replace(name="NVIDIA T400", compute_capability=(7, 0))


def card_of(kind: str, index: int) -> Gpu:
    """A big or small GPU, one without a UUID (nameless), or without figures (dark)."""
    if kind == "small":
        return small_card(index)
    gpu = card(index, total=None, free=None) if kind == "dark" else card(index)
    return gpu._replace(uuid=None) if kind == "nameless" else gpu


def mig_instance(place: int, total_mib: int) -> Gpu:
    """An empty instance of GPU 0."""
    return Gpu(
        0,
        uuid=f"MIG-{place}0000000-0000-5000-8000-000000000000",
        name="NVIDIA A100 MIG",
        total_bytes=total_mib * MIB,
        free_bytes=total_mib * MIB,
        compute_capability=(8, 0),
        mig_ids=(place, 0),
    )


def lease(size_mib: int, used_mib: int | None = 0, *, pid: int = 7) -> CardLease:
    """Another process's lease of so many MiB, of which it uses so many."""
    used = None if used_mib is None else used_mib * MIB
    return CardLease(pid, size_mib * MIB, used, program="train.py", user="ann")


def machine(*gpus: Gpu) -> Inventory:
    """A machine with a new driver."""
    return Inventory(gpus, driver_version="570.86.15")


def mib(size_bytes: int | None) -> float | None:
    """A size in MiB; None for unknown."""
    return None if size_bytes is None else size_bytes / MIB


def amount(size_mib: int | None) -> Amount | None:
    """MiB as an amount; None for no such rule."""
    return None if size_mib is None else Amount(size_mib * MIB)


def share(percent: float) -> Amount:
    """A percentage as an amount."""
    return Amount(share=percent / 100)


SHARED_DESKTOP = Profile(
    "shared-desktop",
    memory=MemoryRules(
        allow_growth=True,
        per_process_gpu_memory_fraction=0.7,
        keep_free=Amount(GIB),
        at_least=Amount(GIB),
    ),
)


def asking(at_least_mib: int, policy: str = "fail", wait_s: float | None = None) -> Profile:
    """A profile that wants so much of each GPU, and its policy where there is less."""
    rules = MemoryRules(
        memory_limit=share(100),
        at_least=amount(at_least_mib),
        on_shortage=OnShortage(policy, wait_s),
    )
    return Profile("asking", memory=rules)


def plan(
    profile: Profile,
    *gpus: Gpu,
    visible: str | None = None,
    order: str | None = None,
    chosen_by_parent: str | None = None,
) -> Plan:
    """The plan for ``profile`` on a machine of ``gpus``, with this CUDA_VISIBLE_DEVICES."""
    given = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": order}
    environ = {name: value for name, value in given.items() if value is not None}
    return make_plan(profile, machine(*gpus), environ=environ, chosen_by_parent=chosen_by_parent)


FOUR = tuple(card(index, free=4000 + index * 1000) for index in range(4))


def choose(*members: int | str) -> Profile:
    """A profile whose gpus is this list."""
    return Profile("chosen", gpus=GpuSelection("list", members))


def pick(count: int) -> Profile:
    """A profile that picks so many."""
    return Profile("picked", gpus=GpuSelection("pick", count=count))


def numbers(made: Plan) -> list[int]:
    """The planned GPUs by nvidia-smi's numbers."""
    return [gpu.gpu.index for gpu in made.gpus]
