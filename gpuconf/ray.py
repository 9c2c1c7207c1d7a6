"""Turn Ray's GPU fractions into limits: each worker may use only the share that Ray assigned to it.

    ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"})

Tasks and actors need nothing else.  Ray's own ``num_gpus=0.4`` is only bookkeeping and limits
nothing.  :func:`options` returns the fraction for a size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.basics.arguments import memory_size
from gpuconf.basics.units import sized
from gpuconf.errors import TooLateError, UsageError, with_short_tracebacks
from gpuconf.machine.cards.inventory import RAY
from gpuconf.machine.schedulers import Assigned, assignment_of, on_ray, with_share
from gpuconf.session import configure

__all__ = ["check", "options", "setup"]

_LARGEST_DIFFERENCE = 0.02  # between the parts of GPUs that count as equal
_TYPE = "accelerator_type:"  # before the type, in a node's resources


class GpuPart(NamedTuple):
    """A GPU's description, and the part of it that a task needs; None if its figures are
    unknown."""

    gpu: str
    part: float | None

    def __str__(self) -> str:
        if self.part is None:
            return f"{self.gpu}: memory unknown"
        return f"{self.gpu}: {f'{self.part:.4f}' if self.part <= 1 else 'too small'}"


def setup() -> None:
    """Limit this worker to its share of the GPU; Ray calls this when the worker starts.

    The profile is ``GPUCONF_PROFILE``, or the default described in docs/profiles.md. The limit is
    computed when the task imports a framework, and takes effect when the framework creates its
    devices::

        share × (total - held by programs outside Ray - keep_free) - context

    A task without GPUs sees none.  Raises ProfileError for a bad profile.

    Ray calls only one hook, the job's. Ray silently ignores a hook in the runtime_env of an actor
    or a task, and in Ray Train's ``worker_runtime_env`` (Ray 2.60). A program with its own hook
    calls this function there.
    """
    configure.configure(memory={"share": "ray"})


def check() -> None:
    """Raise TooLateError if this worker's limit was made for a share other than its task's.

    Ray reuses a worker after tasks whose decorator has neither ``num_gpus`` nor ``max_calls=1``.  A
    framework that has created its devices keeps its limit, or its lack of a GPU.  Call this first
    in a task.
    """
    made = configure.bound_plan()
    assigned = on_ray.assigned()
    if made is None or assigned is None:
        return
    words = assignment_of(each.gpu for each in made.gpus)
    if words != assigned.words:
        raise TooLateError(
            f"this worker's limit was set for {words}, but Ray has assigned {assigned.words} to "
            "this task",
            hint="decorate every task that imports a framework, including those without a GPU, "
            "with @ray.remote(max_calls=1); if the decorator has num_gpus, Ray does that",
        )


@with_short_tracebacks
def options(memory: str | int, *, accelerator: str | None = None) -> dict[str, object]:
    """Return the options of a task or an actor whose limit is to be ``memory``, "3GiB" or bytes.

    ``train.options(**gpuconf.ray.options("3GiB")).remote()``.  The fraction is computed from the
    memory that Ray's programs can now share on each GPU, with the profile that applies on its node,
    so that the limit is at least ``memory``, unless the profile itself limits it to less.
    ``accelerator`` is Ray's ``accelerator_type``: only
    such GPUs count, and the task runs on one of them.

    Queries every node that has GPUs, which takes a few seconds. Raises UsageError if GPUs differ by
    more than 2 %, because Ray takes one fraction for all, or if none is large enough.
    """
    import ray

    if not ray.is_initialized():
        raise UsageError("gpuconf.ray.options() needs a cluster", hint="call ray.init() first")
    size_bytes = memory_size("memory", memory, hint='gpuconf.ray.options("3GiB")')
    ask = ray.remote(num_cpus=0)(_parts_here)
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asked = []
    for node in ray.nodes():
        kinds = [name for name in node["Resources"] if name.startswith(_TYPE)]
        is_wanted = accelerator is None or _TYPE + accelerator in kinds
        if node["Alive"] and node["Resources"].get("GPU") and is_wanted:
            place = affinity(node["NodeID"], soft=False)
            words = " ".join([f"on {node['NodeManagerHostname']}", *kinds])
            asked.append(ask.options(scheduling_strategy=place).remote(size_bytes, words))
    found = [part for parts in ray.get(asked) for part in parts]
    return options_for(memory if isinstance(memory, str) else sized(size_bytes), found, accelerator)


def options_for(
    memory: str, found: Sequence[GpuPart], accelerator: str | None
) -> dict[str, object]:
    """Return the options for ``found``; raise UsageError as :func:`options` does."""
    parts = [each.part for each in found if each.part is not None]
    of_type = f" of type {accelerator}" if accelerator else ""
    if not parts:
        raise UsageError(f"no node in the cluster has a GPU{of_type} with known memory")
    smallest, largest = min(parts), max(parts)
    listed = "".join(f"\n  {each}" for each in found)
    if smallest > 1:
        raise UsageError(f"no GPU{of_type} has room for {memory}:{listed}")
    if largest > min(smallest * (1 + _LARGEST_DIFFERENCE), 1):
        raise UsageError(
            f"{memory} is a different fraction of each GPU{of_type}, but Ray accepts only one:"
            f"{listed}",
            hint=f'gpuconf.ray.options("{memory}", accelerator=TYPE), if the types differ\n'
            "        or give the nodes of one size a resource, "
            """`ray start --resources='{"small_gpu": 1000}'`, and use """
            '.options(num_gpus=PART, resources={"small_gpu": 1})',
        )
    kind: dict[str, object] = {"accelerator_type": accelerator} if accelerator else {}
    return {"num_gpus": largest, **kind}


def _parts_here(size_bytes: int, node: str) -> list[GpuPart]:
    """Return the part of each GPU on this node that a task needs for ``size_bytes``."""
    from gpuconf.machine.cards import read_inventory
    from gpuconf.planner import label
    from gpuconf.planner.scheduler_share import part_for
    from gpuconf.profile import load_profile
    from gpuconf.profile.model import GpuRules

    rules = GpuRules(load_profile().memory)
    gpus = with_share(read_inventory(), Assigned(RAY, 1.0)).gpus
    return [GpuPart(f"{label(gpu)} {node}", part_for(size_bytes, gpu, rules)) for gpu in gpus]
