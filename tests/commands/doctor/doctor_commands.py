"""What the tests of ``gpuconf doctor`` read in a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def troubles(document: Mapping[str, Any]) -> dict[str, str]:
    """The findings that are no ``ok`` and no ``skip``: id to status."""
    found = document["findings"]
    return {each["id"]: each["status"] for each in found if each["status"] not in ("ok", "skip")}
