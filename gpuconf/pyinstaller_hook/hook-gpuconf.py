# ruff: noqa: N999  # PyInstaller names hooks so
"""What a frozen program needs of gpuconf that PyInstaller does not see in its imports."""

from __future__ import annotations

import os

import gpuconf
from gpuconf.profile.files import shipped_folder

# Read as files at run time; in a checkout the folder lies beside the package.
datas = [(os.path.join(shipped_folder(), "*.*"), os.path.join("gpuconf", "configs"))]

# What `gpuconf.NAME` imports when it is first used.
hiddenimports = sorted(set(gpuconf._PUBLIC.values()))
