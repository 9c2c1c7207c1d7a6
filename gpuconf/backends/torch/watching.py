"""PyTorch from its import to the start of CUDA, where the plan binds and the caps are put."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from gpuconf.backends.entrances import ENTRANCES, call_before, is_watched
from gpuconf.backends.torch import caps, lateness
from gpuconf.backends.torch.environment import options_of
from gpuconf.backends.torch.options import unknown_options
from gpuconf.errors import BackendError
from gpuconf.planner import GpuPlan, Plan
from gpuconf.profile import Profile
from gpuconf.settings import Setting

_BOUND = "torch memory limit bound"


def watch(
    torch: ModuleType,
    profile: Profile | None,
    bind: Callable[[Callable[[Plan], None]], None],
    use: Callable[[Sequence[str]], None],
    record: Callable[[Setting], None],
) -> None:
    """Bind the plan when torch starts CUDA, now if it has, and cap its caching allocator.

    ``bind`` makes the plan hold and calls what it is given with it.  ``use`` counts this process on
    GPUs: under a launcher such as torchrun the one of its local rank, to which it pins itself.

    Binding comes before CUDA's start, so that CUDA_VISIBLE_DEVICES still acts; the caps come after
    it, from torch's own queue: ``set_per_process_memory_fraction`` would start CUDA, some
    300-500 MB on the card.  Raises TooLateError where CUDA was started and the plan cannot hold,
    BackendError for a key of ``profile`` that this torch does not know.
    """
    cuda: Any = getattr(torch, "cuda", None)
    built_with = getattr(getattr(torch, "version", None), "cuda", "")
    if cuda is None or not (built_with is None or isinstance(built_with, str)):
        return  # a stub, or a module of the user's that bears the name
    if built_with is None:
        why = "this torch is built without CUDA"
        record(Setting(_BOUND, "when torch starts CUDA", None, why))
        return
    if profile is not None:
        _refuse_unknown(torch, profile)
    if cuda.is_initialized():
        bind(lambda plan: _put_late(torch, plan, record))
        return
    module, (name,), _ = ENTRANCES["torch"]
    if not hasattr(cuda, name):
        why = f"this torch has no {module}.{name}, so CUDA's start cannot be seen"
        record(Setting(_BOUND, "when torch starts CUDA", None, why))
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

    record(Setting(_BOUND, "when torch starts CUDA"))
    cuda._lazy_call(lambda: bind(lambda plan: _put(torch, plan, record)))
    call_before(cuda, name, before)  # last: where this was interrupted, it is done again


def _refuse_unknown(torch: Any, profile: Profile) -> None:
    """An option that torch does not know would break its start of CUDA."""
    options = {option: key for key, (option, _) in options_of(profile).items()}
    folder = os.path.join(os.path.dirname(str(torch.__file__)), "lib")
    for option in unknown_options([folder], options):
        raise BackendError(
            f"torch {torch.__version__} does not know {option}, which profile {profile.name} sets "
            f"with torch.{options[option]}; with it in its variable torch cannot start CUDA",
            hint=f"write `torch: {{{options[option]}: null}}`, or install a newer torch",
        )


def _planned(plans: Sequence[Plan]) -> Sequence[GpuPlan]:
    return plans[-1].gpus if plans else ()


def _put(torch: Any, plan: Plan, record: Callable[[Setting], None]) -> None:
    caps.put(torch, plan, record)
    record(Setting(_BOUND, "when torch starts CUDA", "when torch started CUDA"))


def _put_late(torch: Any, plan: Plan, record: Callable[[Setting], None]) -> None:
    lateness.refuse_if_too_late(torch, plan)
    caps.put(torch, plan, record)
