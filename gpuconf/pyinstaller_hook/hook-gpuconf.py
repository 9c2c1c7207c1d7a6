# ruff: noqa: N999  # PyInstaller names hooks so
"""What a frozen program needs of gpuconf that PyInstaller does not see in its imports."""

from __future__ import annotations

import os

import gpuconf
from gpuconf.profile.files import shipped_folder

# Read as files at run time: profiles, in a checkout beside the package, and the rules by which
# `explain` and the batching calls recognise a lack of memory.
_RULES = os.path.join("gpuconf", "messages", "rules")
datas = [
    (os.path.join(shipped_folder(), "*.*"), os.path.join("gpuconf", "configs")),
    (os.path.join(os.path.dirname(os.path.dirname(gpuconf.__file__)), _RULES, "*.yaml"), _RULES),
]

# What `gpuconf.NAME` imports when it is first used.
hiddenimports = sorted(set(gpuconf._PUBLIC.values()))
