"""gpuconf: one line at the top of a script makes a shared GPU safe.

    import gpuconf.auto   # first line; reads $GPUCONF_PROFILE

The names below are imported when first used (PEP 562), so that ``import gpuconf`` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

_PUBLIC = {
    "configure": "gpuconf.bootstrap",
    "activation": "gpuconf.bootstrap",
    "install_session": "gpuconf.bootstrap",
    "plan": "gpuconf.bootstrap",
    "load_profile": "gpuconf.profile",
    "Activation": "gpuconf.report",
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
    "GpuconfError",
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
    "install_session",
    "load_profile",
    "plan",
]

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.bootstrap import activation, configure, install_session, plan
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
    from gpuconf.report import Activation


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gpuconf' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
