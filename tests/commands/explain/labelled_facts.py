"""The facts of a diagnosis' document by the names that labels have for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_PLACES = yaml.safe_load(Path(__file__).with_name("fact_places.yaml").read_text(encoding="utf-8"))


def places_of(kind: str) -> dict[str, str]:
    """The places of the labels of one kind, ``simulated`` or ``corpus``, by name."""
    return {**_PLACES["both"], **_PLACES[kind]}


def fact_at(place: str, facts: dict[str, Any]) -> Any:
    """The fact at a place such as ``request.tensor.shape``; None where it is not known."""
    found: Any = facts
    for name in place.split("."):
        found = found.get(name) if found is not None else None
    return found
