# ruff: noqa: N999  # PyInstaller names hooks so
"""The parts of gpuconf that a frozen program needs but PyInstaller does not see in its imports."""

from __future__ import annotations

import os

import gpuconf
from gpuconf.profile.files import shipped_folder

# Files read at run time: profiles, which are next to the package in a checkout, and the rules by
# which `explain` and the batching calls recognize out-of-memory errors.
_RULES = os.path.join("gpuconf", "messages", "rules")
datas = [
    (os.path.join(shipped_folder(), "*.*"), os.path.join("gpuconf", "configs")),
    (os.path.join(os.path.dirname(os.path.dirname(gpuconf.__file__)), _RULES, "*.yaml"), _RULES),
]

# The modules that `gpuconf.NAME` imports on first use.
hiddenimports = sorted(set(gpuconf._PUBLIC.values()))
