"""The modules in docs/ that make and check the pages, which no package holds."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from tests.commands.cli.commands import ROOT


def docs_module(name: str) -> ModuleType:
    """A module in docs/, by its name."""
    folder = str(ROOT / "docs")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)
