"""The decisions of `gpuconf run`, passed to the programs that it starts in ``GPUCONF_RUN``.

The variable holds one JSON object. Programs with the same version of gpuconf plan again from its
profile and figures, and so arrive at the same limit, even if they have narrowed
CUDA_VISIBLE_DEVICES. In Pythons too old for gpuconf, `gpuconf.injected` reads the finished plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from gpuconf.basics.environment import RUN_VARIABLE
from gpuconf.basics.json_values import decoded_exactly, plain
from gpuconf.errors import UsageError
from gpuconf.machine.cards.inventory import Inventory
from gpuconf.planner import Plan
from gpuconf.profile import Profile
from gpuconf.profile.model import GpuRules, OnShortage
from gpuconf.version import __version__

FORMAT = 1


class RunPlan(NamedTuple):
    """The profile of a run, the machine's GPUs as the run saw them, and its leases.

    ``leases`` maps the UUID of each GPU to its lease file; ``notes`` have been printed already.
    """

    profile: Profile
    inventory: Inventory
    leases: Mapping[str, str]
    notes: tuple[str, ...] = ()


def encode(plan: Plan, inventory: Inventory, leases: Mapping[str, str], package: str) -> str:
    """Return the text of ``GPUCONF_RUN``; ``package`` is the folder of this gpuconf."""
    # Without the lists of processes, which may be long and are no longer needed.
    inventory = inventory.mapped(lambda gpu: gpu._replace(processes=None))
    plan = plan._replace(profile=_settled(plan.profile), visible=())
    gpus = tuple(each._replace(gpu=each.gpu._replace(processes=None)) for each in plan.gpus)
    document = {
        "format": FORMAT,
        "version": __version__,
        "package": package,
        "processes": plan.profile.processes,
        "leases": dict(leases),
        "plan": plain(plan._replace(gpus=gpus)),
        "inventory": plain(inventory),
    }
    return json.dumps(document, separators=(",", ":"))


def read(environ: Mapping[str, str]) -> RunPlan | None:
    """Return the run that this program belongs to; None if there is none.

    Raises UsageError for a plan from another version of gpuconf, or one that cannot be read.
    """
    text = environ.get(RUN_VARIABLE)
    if not text:
        return None
    try:
        data = json.loads(text)
        version = data["version"]
        if (data["format"], version) != (FORMAT, __version__):
            raise _unreadable(f"it comes from gpuconf {version}, but this is gpuconf {__version__}")
        return RunPlan(
            decoded_exactly(Profile, data["plan"]["profile"]),
            decoded_exactly(Inventory, data["inventory"]),
            {str(uuid): str(path) for uuid, path in data["leases"].items()},
            tuple(data["plan"]["notes"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from None


def _unreadable(why: str) -> UsageError:
    return UsageError(
        f"the plan of gpuconf run in {RUN_VARIABLE} cannot be used: {why}",
        hint=f"restart the program with this version's gpuconf run, or: unset {RUN_VARIABLE}",
    )


def _settled(profile: Profile) -> Profile:
    """Drop settings that the run has already handled: a program in it neither waits nor leases."""

    def settled(rules: GpuRules) -> GpuRules:
        return rules._replace(memory=rules.memory._replace(on_shortage=OnShortage()))

    per_gpu = tuple((gpu, settled(rules)) for gpu, rules in profile.per_gpu)
    memory = profile.memory._replace(on_shortage=OnShortage())
    return profile._replace(memory=memory, per_gpu=per_gpu, notes=())
