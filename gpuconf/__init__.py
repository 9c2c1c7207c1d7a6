"""gpuconf: one line at the top of a script makes a shared GPU safe.

    import gpuconf.auto   # first line; reads $GPUCONF_PROFILE

The names below are imported on first use (PEP 562) to keep ``import gpuconf`` cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconf.version import __version__

_PUBLIC = {
    "configure": "gpuconf.session.configure",
    "activation": "gpuconf.session.configure",
    "install_session": "gpuconf.session.configure",
    "plan": "gpuconf.session.configure",
    "estimate": "gpuconf.commands.estimate",
    "MemoryEstimate": "gpuconf.commands.estimate",
    "evaluate": "gpuconf.batching",
    "predict": "gpuconf.batching",
    "fit": "gpuconf.batching",
    "oom_safe": "gpuconf.batching",
    "session_evaluate": "gpuconf.batching",
    "explain": "gpuconf.commands.explain",
    "Diagnosis": "gpuconf.commands.explain",
    "load_profile": "gpuconf.profile",
    "Activation": "gpuconf.session.activation",
    "Plan": "gpuconf.planner",
    "Profile": "gpuconf.profile",
    "GpuconfError": "gpuconf.errors",
    "ProfileError": "gpuconf.errors",
    "ProfileNotFoundError": "gpuconf.errors",
    "TooLateError": "gpuconf.errors",
    "ShortageError": "gpuconf.errors",
    "MissingDependencyError": "gpuconf.errors",
    "BackendError": "gpuconf.errors",
}

__all__ = [
    "Activation",
    "BackendError",
    "Diagnosis",
    "GpuconfError",
    "MemoryEstimate",
    "MissingDependencyError",
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
    "load_profile",
    "oom_safe",
    "plan",
    "predict",
    "session_evaluate",
]

if TYPE_CHECKING:
    from gpuconf.batching import evaluate, fit, oom_safe, predict, session_evaluate
    from gpuconf.commands.estimate import MemoryEstimate, estimate
    from gpuconf.commands.explain import Diagnosis, explain
    from gpuconf.errors import (
        BackendError,
        GpuconfError,
        MissingDependencyError,
        ProfileError,
        ProfileNotFoundError,
        ShortageError,
        TooLateError,
    )
    from gpuconf.planner import Plan
    from gpuconf.profile import Profile, load_profile
    from gpuconf.session.activation import Activation
    from gpuconf.session.configure import activation, configure, install_session, plan


# IPython looks these up when `%load_ext gpuconf` loads this package.
_OF_IPYTHON = {
    "load_ipython_extension": "gpuconf.ipython",
    "unload_ipython_extension": "gpuconf.ipython",
}


# Subpackages available as attributes: `gpuconf.callbacks.MemoryUsage()`.
_PACKAGES = ("batching", "callbacks", "images", "ray")


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        import importlib

        return importlib.import_module(f"gpuconf.{name}")
    home = _PUBLIC.get(name) or _OF_IPYTHON.get(name)
    if home is None:
        raise AttributeError(f"module 'gpuconf' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_PACKAGES})
