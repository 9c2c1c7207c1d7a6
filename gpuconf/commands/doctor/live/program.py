"""The probe's child takes a GPU through its steps: ``gpuconf.commands.doctor.live.program``.

As in a user's script, `import gpuconf.auto` comes before the framework, and $GPUCONF_PROFILE names
the profile. The record goes to the descriptor ``--record``, or to stdout when run by hand. ``--only
1`` lets the framework use only the second of the plan's GPUs; the plan itself is the same as with
all GPUs.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gpuconf.basics.environment import switched_off
from gpuconf.basics.units import exact_size
from gpuconf.commands.doctor.live.allocating import AllocatingBench
from gpuconf.commands.doctor.live.frameworks import (
    FRAMEWORKS,
    JAX,
    TENSORFLOW,
    TORCH,
    ProbedFramework,
)
from gpuconf.commands.doctor.live.jax_cards import JaxCards
from gpuconf.commands.doctor.live.recorder import CardGauge, Recorder, StepFailed
from gpuconf.commands.doctor.live.steps import Bench
from gpuconf.commands.doctor.live.torch_cards import TorchCards
from gpuconf.machine.cards import Gpu, Inventory, read_inventory
from gpuconf.machine.cards.visible_devices import resolve
from gpuconf.planner import GpuPlan, Plan
from gpuconf.planner.context import context_bytes
from gpuconf.support.children.signals import end_with_parent


def main() -> None:
    """Run the steps; an exception in a step goes into the record, but is not an error here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=int, default=1, metavar="FD")
    known = {framework.package: framework for framework in FRAMEWORKS}
    parser.add_argument("--framework", choices=list(known), default=TENSORFLOW.package)
    parser.add_argument("--only", type=int, default=None, metavar="PLACE")
    options = parser.parse_args()
    end_with_parent()
    faulthandler.enable()  # so that a crash in C++ prints the Python line on stderr
    recorder = Recorder(options.record)
    with suppress(StepFailed):
        _probe(recorder, known[options.framework], options.only)
    recorder.write("over")


def _probe(recorder: Recorder, framework: ProbedFramework, only: int | None) -> None:
    gauge = CardGauge(())
    with recorder.step("start", (), gauge.read):
        planned = _configure(recorder, framework)
        if planned is None:
            return
        gauge = CardGauge([each.gpu for each in planned])
        bench = _bench(framework, recorder, gauge, planned)
        bench.list_cards(only)
    bench.make_contexts()
    for place in bench.places:
        with suppress(StepFailed):  # the next GPU may pass
            bench.try_card(place)


def _bench(
    framework: ProbedFramework, recorder: Recorder, gauge: CardGauge, planned: list[GpuPlan]
) -> AllocatingBench | Bench:
    """Import a framework and return its steps."""
    if framework is TORCH:
        return AllocatingBench(TorchCards(), recorder, gauge, planned)
    if framework is JAX:
        return AllocatingBench(JaxCards(), recorder, gauge, planned)
    import tensorflow as tf

    return Bench(tf, recorder, gauge, planned)


def _configure(recorder: Recorder, framework: ProbedFramework) -> list[GpuPlan] | None:
    """Apply the profile; return the GPUs that it uses, or None if there is nothing to probe."""
    import gpuconf

    # Reports a shortage immediately; the framework's import would wait for memory.
    plan = gpuconf.plan() if switched_off(os.environ) is None else None
    import gpuconf.auto

    inventory = read_inventory()
    planned = _without_plan(inventory) if plan is None else list(plan.gpus)
    recorder.write("facts", python=sys.executable, **_profile_facts(plan))
    cards = [_card(place, each, framework) for place, each in enumerate(planned)]
    recorder.write("cards", cards=cards)
    if plan is not None and plan.hides_gpus:
        recorder.write("skip", **_hidden(plan))
        return None
    if not planned and not _has_cuda_driver():
        why = inventory.problem or "the driver finds no GPU"
        recorder.write("skip", reason="no GPU here", detail=[why])
        return None
    if importlib.util.find_spec(framework.package) is None:
        reason = f"{framework.title} is not installed in {sys.executable}"
        recorder.write("skip", reason=reason)
        return None
    return planned


def _without_plan(inventory: Inventory) -> list[GpuPlan]:
    """With GPUCONF_DISABLE: the GPUs that CUDA shows, under the framework's own rules."""
    seen = resolve(
        os.environ.get("CUDA_VISIBLE_DEVICES"),
        inventory.gpus,
        device_order=os.environ.get("CUDA_DEVICE_ORDER"),
        driver_version=inventory.driver_version,
    )
    return [GpuPlan(gpu) for gpu in seen.devices]


def _profile_facts(plan: Plan | None) -> dict[str, str]:
    if plan is None:
        return {"disabled": switched_off(os.environ) or "no plan"}
    profile, named = plan.profile, os.environ.get("GPUCONF_PROFILE", "")
    is_path = os.sep in named or named.endswith((".yaml", ".yml"))
    facts = {"profile": os.path.abspath(named) if is_path else profile.name}
    sizes = [context_bytes(each.gpu, profile.memory) for each in plan.gpus]
    known = [size for size in sizes if size is not None]
    if known:
        facts["context"] = exact_size(max(known))
    return facts


def _hidden(plan: Plan) -> dict[str, Any]:
    """Why the plan shows no GPU; calm, unless a GPU is present but has too little memory."""
    if plan.profile.gpus.kind == "none":
        return {"reason": f"profile {plan.profile.name} uses no GPU", "detail": plan.notes}
    if not plan.visible:
        return {"reason": "no GPU here", "detail": plan.notes}
    reason = f"profile {plan.profile.name} uses the CPU here: no GPU has enough memory"
    return {"reason": reason, "detail": plan.notes, "is_calm": False}


def _card(place: int, planned: GpuPlan, framework: ProbedFramework) -> dict[str, object]:
    gpu: Gpu = planned.gpu
    limit = planned.limit_of(framework.package)
    return {
        "place": place,
        "label": f"GPU {place} {gpu.name or ''} ({(gpu.uuid or '')[:12]})",
        "uuid": gpu.uuid,
        "total_bytes": gpu.total_bytes,
        "free_bytes": gpu.free_bytes,
        "promised_bytes": gpu.promised_bytes if gpu.leases else None,
        "limit_bytes": planned.limit_bytes if limit is None else limit.limit_bytes,
        "allow_growth": planned.allow_growth if framework is not TORCH else True,
        "holders": [each for each in _holders(gpu) if each["pid"] != os.getpid()],
    }


def _holders(gpu: Gpu) -> Iterator[dict[str, object]]:
    """The processes that use memory, then lease holders that the driver does not list."""
    for process, lease in gpu.holders:
        size = None if lease is None else lease.lease_bytes
        if process is not None:
            named = {"pid": process.pid, "name": process.name}
            yield {**named, "used_bytes": process.used_bytes, "lease_bytes": size}
        elif lease is not None:
            named = {"pid": lease.pid, "name": lease.program}
            used = None if lease.used_bytes is None else 0
            yield {**named, "used_bytes": used, "lease_bytes": size}


def _has_cuda_driver() -> bool:
    """Whether there may be a GPU that NVML does not support, as on a Jetson."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
