"""PyTorch: the allocator's variable before import, and the cap once torch starts CUDA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from gpuconf.backends.entrances import ENTRANCES, call_before, is_watched
from gpuconf.environ import Change
from gpuconf.profile.schema import OWNED_VARIABLES
from gpuconf.settings import Setting
from gpuconf.units import sized

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.planner import GpuPlan, Plan
    from gpuconf.profile import Profile

# Every torch reads the first; newer ones read the second too, and which of them rules where
# both are set differs between releases (c10/cuda/CUDAAllocatorConfig.h, 2.8 to 2.10).
_ALLOCATORS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
Record = Callable[[Setting], None]


def wishes(profile: Profile, baseline: Mapping[str, str]) -> list[Change]:
    """``expandable_segments`` merged into what the user has in the variable, or in both."""
    wanted = profile.torch.expandable_segments
    if wanted is None:
        return []
    names = [name for name in _ALLOCATORS if baseline.get(name)] or [_ALLOCATORS[0]]
    return [
        _merged(name, baseline.get(name, ""), f"expandable_segments:{wanted}") for name in names
    ]


def _merged(name: str, theirs: str, option: str) -> Change:
    parts = [part.strip() for part in theirs.split(",") if part.strip()]
    if option in parts:
        return Change(name, theirs, OWNED_VARIABLES[name])
    if any(part.startswith("expandable_segments:") for part in parts):
        # Theirs stays; asking for ours alone makes environ.settle report the difference.
        return Change(name, option, OWNED_VARIABLES[name])
    value = ",".join([*parts, option])
    return Change(name, value, OWNED_VARIABLES[name], overrules=True)


def watch(
    torch: ModuleType,
    bind: Callable[[Callable[[Plan], None]], None],
    use: Callable[[Sequence[str]], None],
    record: Record,
) -> None:
    """Bind the plan when torch starts CUDA, now if it has, and cap its caching allocator.

    ``bind`` makes the plan hold and calls what it is given with it.  ``use`` counts this process on
    GPUs: under a launcher such as torchrun the one of its local rank, to which it pins itself.

    Binding comes before CUDA's start, so that CUDA_VISIBLE_DEVICES still acts; the cap comes after
    it, from torch's own queue: ``set_per_process_memory_fraction`` would start CUDA, some
    300-500 MB on the card.
    """
    cuda: Any = getattr(torch, "cuda", None)
    built_with = getattr(getattr(torch, "version", None), "cuda", "")
    if cuda is None or not (built_with is None or isinstance(built_with, str)):
        return  # a stub, or a module of the user's that bears the name
    if built_with is None:
        why = "this torch is built without CUDA"
        record(Setting("torch memory limit", "the plan's", None, why))
        return
    if cuda.is_initialized():
        bind(lambda plan: _cap(torch, plan, record))
        return
    module, (name,), _ = ENTRANCES["torch"]
    if not hasattr(cuda, name):
        why = f"this torch has no {module}.{name}, so CUDA's start cannot be seen"
        record(Setting("torch memory limit", "the plan's", None, why))
        return
    if is_watched(cuda, name):
        return

    def before() -> None:
        is_initializing = getattr(getattr(cuda, "_tls", None), "is_initializing", False)
        if not cuda.is_initialized() and not is_initializing:
            from gpuconf.carried.places import card_of_rank

            plans: list[Plan] = []
            bind(plans.append)
            use(card_of_rank([each.gpu.uuid for each in _planned(plans) if each.gpu.uuid]))

    record(Setting("torch memory limit", "the plan's, when torch starts CUDA"))
    cuda._lazy_call(lambda: bind(lambda plan: _cap(torch, plan, record)))
    call_before(cuda, name, before)  # last: where this was interrupted, it is done again


def _planned(plans: Sequence[Plan]) -> Sequence[GpuPlan]:
    return plans[-1].gpus if plans else ()


def _cap(torch: Any, plan: Plan, record: Record) -> None:
    """Cap torch's caching allocator on every planned GPU; CUDA has been started."""
    for index, gpu in _devices(torch, plan.gpus):
        limit = gpu.limit_of("torch")
        if limit is None or limit.fraction is None:
            continue
        torch.cuda.set_per_process_memory_fraction(limit.fraction, index)
        name, asked = f"torch cuda:{index} memory limit", sized(limit.limit_bytes or 0)
        record(Setting(name, asked, f"{limit.fraction:.4f} of the card"))


def _devices(torch: Any, planned: Sequence[GpuPlan]) -> list[tuple[int, GpuPlan]]:
    """torch's number of each planned GPU: by UUID where torch gives them, else by place."""
    count = torch.cuda.device_count()
    uuids = [
        str(getattr(torch.cuda.get_device_properties(index), "uuid", "")).lower()
        for index in range(count)
    ]
    found = []
    for place, gpu in enumerate(planned):
        own = (gpu.gpu.uuid or "").lower().removeprefix("gpu-")
        index = uuids.index(own) if own in uuids else place
        if index < count:
            found.append((index, gpu))
    return found
