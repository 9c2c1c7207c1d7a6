"""The PyInstaller hooks, found through gpuconf's entry point ``pyinstaller40``."""

from __future__ import annotations

import os


def hook_dirs() -> list[str]:
    """Return the folders with gpuconf's hooks: only this one."""
    return [os.path.dirname(os.path.abspath(__file__))]
