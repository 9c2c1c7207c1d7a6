"""Why NVML is not available, as one word, so that one fault causes one `fail`, not five."""

from __future__ import annotations

from typing import Literal

from gpuconf.commands.doctor.facts import Facts

Cause = Literal[
    "none",  # no problem, or no sign of a GPU that NVML should know
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

# The check that reports a cause; driver.present reports the rest.
EXPLAINED_BY: dict[Cause, str] = {
    "mismatch": "driver.module",
    "lost": "cards.reachable",
    "wsl": "driver.wsl",
    "container": "driver.container",
    "binding": "packages.nvml_binding",
    "permission": "driver.devices",
}


def cause_of(facts: Facts) -> Cause:
    """The most likely reason; the most certain ones are tried first."""
    if facts.inventory.problem is None:
        return "none"
    return _reported_by_nvml(facts) or _seen_around(facts)


def _reported_by_nvml(facts: Facts) -> Cause | None:
    """The reasons that NVML itself reports unambiguously."""
    code = facts.inventory.problem_code
    if code == "mismatch" or _versions_differ(facts):
        return "mismatch"
    if code == "lost":
        return "lost"
    if code == "too_old":
        return "too_old"
    if code == "no_binding":
        return "binding" if facts.expects_gpu else "none"
    return None


def _seen_around(facts: Facts) -> Cause:
    system, code = facts.system, facts.inventory.problem_code
    if system.is_wsl:
        return "wsl" if system.has_wsl_library else "none"
    if system.other_gpu and code == "no_library" and not system.pci_cards:
        return "none"  # a Jetson may have NVIDIA's kernel module, and no NVML
    if _is_incomplete_container(facts):
        return "container"
    if code == "no_permission" or any(not node.may_open for node in system.nodes):
        return "permission"
    return _without_driver(facts)


def _is_incomplete_container(facts: Facts) -> bool:
    """Whether this container lacks its host's GPU, or only NVIDIA's libraries.

    LXC gives a container the device files, and leaves the libraries to it.
    """
    system = facts.system
    if system.nodes:
        code = facts.inventory.problem_code
        return system.container not in (None, "lxc") and code == "no_library"
    return bool(system.container and (system.module_version or system.pci_cards))


def _without_driver(facts: Facts) -> Cause:
    system, code = facts.system, facts.inventory.problem_code
    if code == "not_loaded":
        # A driver without a GPU is normal in images built for other machines.
        return "none" if system.pci_cards == () else "no_driver"
    if system.module_version:
        return "no_library" if code == "no_library" else "other"
    if system.pci_cards:
        return "no_driver"
    return "none" if code == "no_library" else "other"


def _versions_differ(facts: Facts) -> bool:
    module, library = facts.system.module_version, facts.system.library_version
    return None not in (module, library) and module != library
