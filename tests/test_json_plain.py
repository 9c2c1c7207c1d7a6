"""A value as JSON: what it is written as, and what is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from gpuconf.json_shape import json_shape
from gpuconf.json_values import plain


class Colour(Enum):
    """An enum."""

    RED = "red"


class Point(NamedTuple):
    """A NamedTuple."""

    x: int
    y: int | None = None


@json_shape(computed=("area",), hidden=("secret",), renamed={"corners": "points"})
@dataclass(frozen=True, slots=True)
class Area:
    """A dataclass that is not written as it is."""

    corners: tuple[Point, ...]
    secret: str = "s"

    @property
    def area(self) -> int:
        """Computed."""
        return 7


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("é", "é"),
        (Colour.RED, "red"),
        (Path("/a/b"), "/a/b"),
        ((1, (2,), [3]), [1, [2], [3]]),
        ({1: (2,)}, {"1": [2]}),
        (MappingProxyType({"a": None}), {"a": None}),
        (Point(1), {"x": 1, "y": None}),
        (Area((Point(1, 2),)), {"points": [{"x": 1, "y": 2}], "area": 7}),
    ],
)
def test_what_a_value_is_written_as(value: object, written: object) -> None:
    """And json takes it as it is."""
    assert plain(value) == written
    assert json.loads(json.dumps(plain(value))) == written


@pytest.mark.parametrize("value", [object(), b"", {1, 2}, Point, 1j])
def test_a_value_that_has_no_json_is_refused(value: object) -> None:
    """By its type's name, and not as its repr."""
    with pytest.raises(TypeError, match=f"a {type(value).__name__} has no JSON"):
        plain({"here": [value]})


def test_fields_are_written_in_order() -> None:
    """People read the documents too."""
    assert list(plain(Area(()))) == ["points", "area"]
