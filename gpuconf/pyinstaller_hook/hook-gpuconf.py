# ruff: noqa: N999  # PyInstaller names hooks so
"""The parts of gpuconf that a frozen program needs but PyInstaller does not see in its imports."""

from __future__ import annotations

import os

import gpuconf
from gpuconf.profile.files import shipped_folder

# Files read at run time: profiles, which are next to the package in a checkout; the tables by
# which `explain`, `doctor` and the batching calls know failures and what to change; and what a
# profile found in a project may set.
_FAILURES = os.path.join("gpuconf", "support", "failures")
_ROOT = os.path.dirname(os.path.dirname(gpuconf.__file__))
datas = [(os.path.join(shipped_folder(), "*.*"), os.path.join("gpuconf", "configs"))]
_TABLES = (
    _FAILURES,
    os.path.join(_FAILURES, "facts"),
    os.path.join(_FAILURES, "rules"),
    os.path.join(_FAILURES, "proposals", "changes"),
    os.path.join("gpuconf", "commands", "doctor"),
    os.path.join("gpuconf", "profile"),
)
datas += [(os.path.join(_ROOT, folder, "*.yaml"), folder) for folder in _TABLES]

# The modules that `gpuconf.NAME` imports on first use.
hiddenimports = sorted(set(gpuconf._PUBLIC.values()))
