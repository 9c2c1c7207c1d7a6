"""The doctor's readers: each reads one part of the machine, once, and returns values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from gpuconf.basics import environment
from gpuconf.commands.doctor.facts import Facts, Interpreter, Packages, ProfileFacts, System
from gpuconf.commands.doctor.finding import Finding, crash
from gpuconf.commands.doctor.gathering.leases import read_leases, read_ledger_facts
from gpuconf.commands.doctor.gathering.packages import read_packages
from gpuconf.commands.doctor.gathering.system import read_system
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.machine.cards.health import CardHealth, read_inventory_and_health
from gpuconf.machine.cards.holders import read_processes
from gpuconf.machine.leases.lease import this_process
from gpuconf.machine.leases.reading import CardLeases, with_leases
from gpuconf.machine.policy import POLICY_PATH, current_user, read_policy
from gpuconf.machine.schedulers import assigned_share
from gpuconf.planner import wants_leases
from gpuconf.profile import Profile, chosen_profile, load_profile
from gpuconf.profile.search import BY_PARENT
from gpuconf.session import run_variable
from gpuconf.session.environment import environment_for
from gpuconf.session.plans import plan_within

_T = TypeVar("_T")


class GatheredFacts(NamedTuple):
    """The facts, and a finding for each part that could not be read because of a bug."""

    facts: Facts
    crashes: tuple[Finding, ...] = ()


class _Attempts:
    """Runs the readers; ``crashes`` has a finding for each that crashed."""

    def __init__(self) -> None:
        self.crashes: list[Finding] = []

    def __call__(self, name: str, read: Callable[[], _T], default: _T) -> _T:
        """Return what a reader returns, or ``default`` if it crashes."""
        try:
            return read()
        except UsageError:  # a user error in a variable, raised by examine()
            raise
        except Exception as error:
            self.crashes.append(crash(f"facts.{name}", error))
            return default


def gather(
    *,
    profile: str | None = None,
    root: str = "/",
    environ: Mapping[str, str] = os.environ,
    script_folder: str | None = None,
    interpreter: Interpreter | None = None,
    parent: str | None = None,
) -> GatheredFacts:
    """Read the machine.  If a reader crashes, its facts stay unknown and the crash is a finding.

    ``script_folder`` is where the search for the project's profile starts if a script is examined.
    ``interpreter`` is the Python whose packages are read, by default this one. ``parent`` describes
    the parent process if it requested this examination of itself: it chose the profile, and the
    memory that it holds counts as its own.
    """
    attempt = _Attempts()
    baseline = environment.before_gpuconf(environ)
    # Read before NVML; gpuconf.machine.leases.reading explains why.
    no_leases: dict[str, CardLeases] = {}
    leases = attempt("leases", lambda: read_leases(root=root, environ=baseline), no_leases)
    nothing: tuple[Inventory, dict[int, CardHealth]] = (Inventory(), {})
    unleased, health = attempt("nvml", read_inventory_and_health, nothing)
    inventory = attempt("leases", lambda: with_leases(unleased, leases, this_process()), unleased)
    system = attempt("system", lambda: read_system(root=root, environ=baseline), System())
    inside = system.container is not None
    facts = Facts(
        inventory=inventory,
        health=health,
        system=system,
        processes=attempt(
            "processes",
            lambda: read_processes(inventory, root=root, in_container=inside),
            {},
        ),
        packages=attempt(
            "packages",
            lambda: read_packages(root=root, environ=baseline, interpreter=interpreter),
            Packages(),
        ),
        profile=attempt(
            "profile",
            lambda: _read_profile(
                profile,
                inventory if parent is None else _seen_by_parent(inventory),
                unleased if parent is None else _seen_by_parent(unleased),
                environ=environ,
                script_folder=script_folder,
            ),
            ProfileFacts(),
        ),
        ledger=attempt("ledger", lambda: read_ledger_facts(root=root, environ=baseline), None),
        policy=attempt(
            "policy", lambda: read_policy(current_user(), os.path.join(root, POLICY_PATH[1:])), None
        ),
        environ=baseline,
    )
    return GatheredFacts(
        facts if parent is None else _chosen_by(parent, facts), tuple(attempt.crashes)
    )


def _chosen_by(parent: str, facts: Facts) -> Facts:
    """The facts from the parent's point of view: it is named as the one that chose the profile."""
    if facts.profile.because != BY_PARENT:
        return facts
    return facts._replace(profile=facts.profile._replace(because=f"{parent} chose it"))


def _seen_by_parent(inventory: Inventory) -> Inventory:
    """The GPUs for a plan that this process makes on behalf of the parent process."""
    parent = os.getppid()

    def seen(gpu: Gpu) -> Gpu:
        listed = gpu.processes
        if listed is not None:
            own = {parent: os.getpid()}
            listed = tuple(each._replace(pid=own.get(each.pid, each.pid)) for each in listed)
        leases = tuple(each for each in gpu.leases if each.is_elsewhere or each.pid != parent)
        instances = tuple(map(seen, gpu.mig_instances))
        return gpu._replace(processes=listed, leases=leases, mig_instances=instances)

    return inventory._replace(gpus=tuple(map(seen, inventory.gpus)))


def _read_profile(
    named: str | None,
    inventory: Inventory,
    unleased: Inventory,
    *,
    environ: Mapping[str, str],
    script_folder: str | None = None,
) -> ProfileFacts:
    """Load the profile ``named``, or the one that applies, and make a plan; captures GpuconfError.

    A profile without leases is planned on ``unleased``, the GPUs without leases.
    """
    facts, profile, of_run = _chosen(named, environ, script_folder)
    if profile is None:
        return facts
    rules = [profile.memory, *(each.memory for _, each in profile.per_gpu)]
    facts = facts._replace(
        name=profile.name,
        source=profile.source,
        notes=profile.notes,
        keeps_free=any(each.keep_free is not None for each in rules),
        leases=wants_leases(profile),
    )
    try:
        facts = facts._replace(assigned=assigned_share(profile, environ))
        cards = of_run or (inventory if facts.leases else unleased)
        plan = plan_within(profile, environ=environ, read=lambda: cards)
    except GpuconfError as error:
        return facts._replace(plan_error=error)
    _, settings = environment_for(profile, plan, environ)
    return facts._replace(plan=plan, settings=tuple(settings))


def _chosen(
    named: str | None, environ: Mapping[str, str], script_folder: str | None
) -> tuple[ProfileFacts, Profile | None, Inventory | None]:
    """The profile that applies and why; inside a run, the run's own, with its original figures."""
    facts = ProfileFacts(named or "", "it was named with --profile")
    try:
        run = run_variable.read(environ) if named is None else None
        if run is not None:
            because = "this is inside a gpuconf run or shell"
            return ProfileFacts(run.profile.name, because), run.profile, run.inventory
        if named is None:
            choice = chosen_profile(environ=environ, script_folder=script_folder)
            facts = ProfileFacts(choice.profile, choice.because)
        profile = load_profile(named, environ=environ, script_folder=script_folder)
    except GpuconfError as error:
        return facts._replace(profile_error=error), None, None
    return facts, profile, None
