"""The YAML files next to this module: what to look for in a log."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml


def table_of(name: str) -> dict[str, Any]:
    """The content of one of the files."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load(
        files(__package__).joinpath(name).read_text("utf-8"), Loader=loader
    )
    return found
