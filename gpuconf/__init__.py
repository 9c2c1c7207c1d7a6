"""gpuconf: one line at the top of a script makes a shared GPU safe.

    import gpuconf.auto   # first line; reads $GPUCONF_PROFILE

The names below are imported on first use (PEP 562) to keep ``import gpuconf`` cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconf.version import __version__

# The module of each public name.
_HOMES = {
    "gpuconf.session.configure": "configure activation install_session plan",
    "gpuconf.commands.estimate": "estimate MemoryEstimate",
    "gpuconf.batching": "evaluate predict fit oom_safe session_evaluate",
    "gpuconf.commands.explain": "explain Diagnosis",
    "gpuconf.isolation": "isolated ModelFile",
    "gpuconf.profile": "load_profile Profile",
    "gpuconf.session.activation": "Activation",
    "gpuconf.session.max_memory": "max_memory",
    "gpuconf.session.release": "release",
    "gpuconf.planner": "Plan",
    "gpuconf.errors": "GpuconfError ProfileError ProfileNotFoundError TooLateError ShortageError "
    "MissingDependencyError BackendError IsolatedProcessError",
}
_PUBLIC = {name: home for home, names in _HOMES.items() for name in names.split()}
# IPython looks these up when `%load_ext gpuconf` loads this package.
_OF_IPYTHON = ("load_ipython_extension", "unload_ipython_extension")

__all__ = [
    "Activation",
    "BackendError",
    "Diagnosis",
    "GpuconfError",
    "IsolatedProcessError",
    "MemoryEstimate",
    "MissingDependencyError",
    "ModelFile",
    "Plan",
    "Profile",
    "ProfileError",
    "ProfileNotFoundError",
    "ShortageError",
    "TooLateError",
    "__version__",
    "activation",
    "configure",
    "estimate",
    "evaluate",
    "explain",
    "fit",
    "install_session",
    "isolated",
    "load_profile",
    "max_memory",
    "oom_safe",
    "plan",
    "predict",
    "release",
    "session_evaluate",
]

if TYPE_CHECKING:
    from gpuconf.batching import evaluate, fit, oom_safe, predict, session_evaluate
    from gpuconf.commands.estimate import MemoryEstimate, estimate
    from gpuconf.commands.explain import Diagnosis, explain
    from gpuconf.errors import (
        BackendError,
        GpuconfError,
        IsolatedProcessError,
        MissingDependencyError,
        ProfileError,
        ProfileNotFoundError,
        ShortageError,
        TooLateError,
    )
    from gpuconf.isolation import ModelFile, isolated
    from gpuconf.planner import Plan
    from gpuconf.profile import Profile, load_profile
    from gpuconf.session.activation import Activation
    from gpuconf.session.configure import activation, configure, install_session, plan
    from gpuconf.session.max_memory import max_memory
    from gpuconf.session.release import release


# Subpackages available as attributes: `gpuconf.callbacks.MemoryUsage()`.
_PACKAGES = ("batching", "callbacks", "images", "ray")


def __getattr__(name: str) -> object:
    home = "gpuconf.ipython" if name in _OF_IPYTHON else _PUBLIC.get(name)
    if home is None and name not in _PACKAGES:
        raise AttributeError(f"module 'gpuconf' has no attribute {name!r}")
    import importlib

    if home is None:
        return importlib.import_module(f"gpuconf.{name}")
    globals()[name] = value = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_PACKAGES})
