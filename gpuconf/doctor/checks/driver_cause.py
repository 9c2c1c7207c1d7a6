"""Why NVML cannot be asked, as one word: a machine with one fault gets one `fail`, not five."""

from __future__ import annotations

from typing import Literal

from gpuconf.doctor.facts import Facts
from gpuconf.hardware.nvml import PROBLEMS

Cause = Literal[
    "none",  # nothing is wrong, or nothing tells of a GPU
    "mismatch",
    "lost",
    "wsl",
    "container",
    "binding",
    "permission",
    "no_driver",
    "no_library",
    "too_old",
    "other",
]

# The check that speaks of a cause; driver.present speaks of all others.
EXPLAINED_BY: dict[Cause, str] = {
    "mismatch": "driver.module",
    "lost": "cards.reachable",
    "wsl": "driver.wsl",
    "container": "driver.container",
    "binding": "packages.nvml_binding",
    "permission": "driver.devices",
}


def cause_of(facts: Facts) -> Cause:
    """The likeliest reason, the more certain ones first."""
    problem = facts.inventory.problem
    if problem is None:
        return "none"
    return _told_by_nvml(facts, problem) or _seen_around(facts, problem)


def _told_by_nvml(facts: Facts, problem: str) -> Cause | None:
    """The reasons that NVML's own answer leaves no doubt of."""
    if problem == PROBLEMS[18] or _versions_differ(facts):
        return "mismatch"
    if problem == PROBLEMS[15]:
        return "lost"
    if problem == PROBLEMS[13]:
        return "too_old"
    if "nvidia-ml-py" in problem:  # the binding is missing, or another package
        return "binding" if facts.expects_gpu else "none"
    return None


def _seen_around(facts: Facts, problem: str) -> Cause:
    system = facts.system
    if system.is_wsl:
        return "wsl" if system.has_wsl_library else "none"
    if system.container and not system.nodes and (system.module_version or system.pci_cards):
        return "container"
    if problem == PROBLEMS[4] or any(not node.may_open for node in system.nodes):
        return "permission"
    return _without_driver(facts, problem)


def _without_driver(facts: Facts, problem: str) -> Cause:
    system = facts.system
    if problem == PROBLEMS[9]:
        # A driver without a card is an image made for other machines, and no fault.
        return "none" if system.pci_cards == () else "no_driver"
    if system.module_version:
        return "no_library" if problem == PROBLEMS[12] else "other"
    if system.pci_cards:
        return "no_driver"
    return "none" if problem == PROBLEMS[12] else "other"


def _versions_differ(facts: Facts) -> bool:
    module, library = facts.system.module_version, facts.system.library_version
    return None not in (module, library) and module != library
