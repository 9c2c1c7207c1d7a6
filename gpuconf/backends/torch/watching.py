"""PyTorch from its import until it initializes CUDA, when the plan is bound and caps are set."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from gpuconf.backends.interface import PlanSource
from gpuconf.backends.torch import caps, early_init
from gpuconf.backends.torch.free_memory import report_within
from gpuconf.backends.torch.reserve import take_reserve
from gpuconf.backends.wrapping import ENTRANCES, is_watched, run_before
from gpuconf.basics.setting import Setting
from gpuconf.planner import Plan

_BOUND = "torch memory limit bound"


def watch(torch: ModuleType, source: PlanSource) -> None:
    """Bind the plan of ``source`` and cap the allocator when torch initializes CUDA, or now if it
    has.

    The plan is bound before CUDA is initialized, so that CUDA_VISIBLE_DEVICES still takes effect.
    The caps are set after that, from torch's own queue: ``set_per_process_memory_fraction`` would
    initialize CUDA, which takes some 300-500 MB on the GPU. Raises TooLateError if CUDA is
    initialized and the plan cannot be applied.
    """
    cuda: Any = getattr(torch, "cuda", None)
    built_with = getattr(getattr(torch, "version", None), "cuda", "")
    if cuda is None or not (built_with is None or isinstance(built_with, str)):
        return  # a stub, or the user's own module of that name
    if built_with is None:
        why = "this version of torch was built without CUDA"
        source.record(Setting(_BOUND, "when torch starts CUDA", None, why))
        return
    report_within(torch, lambda index: caps.reported_limit(torch, index))
    if cuda.is_initialized():
        source.bind(lambda plan: _put_late(torch, plan, source))
        return
    _wait_for_start(torch, source)


def _wait_for_start(torch: Any, source: PlanSource) -> None:
    module, (name,) = ENTRANCES["torch"]
    cuda = torch.cuda
    if not hasattr(cuda, name):
        why = (
            f"this version of torch has no {module}.{name}, so the start of CUDA cannot be detected"
        )
        source.record(Setting(_BOUND, "when torch starts CUDA", None, why))
        return
    if is_watched(cuda, name):
        return
    source.record(Setting(_BOUND, "when torch starts CUDA"))
    cuda._lazy_call(lambda: source.bind(lambda plan: _put(torch, plan, source)))
    # Last, so that an interrupted attempt is repeated.
    run_before(cuda, name, lambda: _before_start(cuda, source))


def _before_start(cuda: Any, source: PlanSource) -> None:
    """Bind the plan and register this process; with torchrun, only on its local rank's GPU."""
    is_initializing = getattr(getattr(cuda, "_tls", None), "is_initializing", False)
    if cuda.is_initialized() or is_initializing:
        return
    from gpuconf.injected.places import card_of_rank

    plans: list[Plan] = []
    source.bind(plans.append)
    gpus = plans[-1].gpus if plans else ()
    source.use(card_of_rank([each.gpu.uuid for each in gpus if each.gpu.uuid]))


def _put(torch: Any, plan: Plan, source: PlanSource) -> None:
    caps.put(torch, plan, source.record)
    take_reserve(torch, plan, source)
    source.record(Setting(_BOUND, "when torch starts CUDA", "when torch started CUDA"))


def _put_late(torch: Any, plan: Plan, source: PlanSource) -> None:
    early_init.refuse_if_too_late(torch, plan)
    caps.put(torch, plan, source.record)
    take_reserve(torch, plan, source)
