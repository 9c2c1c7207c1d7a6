"""Values as JSON: what they are written as, and read back, whatever stands there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.json_shape import Bytes, json_shape
from gpuconf.basics.json_values import (
    UnreadableError,
    decoded,
    decoded_exactly,
    json_objects,
    plain,
)


class Held(NamedTuple):
    """With a field that must be there."""

    pid: int
    name: str | None = None
    size_bytes: Bytes | None = None


@json_shape(renamed={"held": "holders"})
@dataclass(frozen=True)
class Card:
    """One of everything."""

    held: tuple[Held, ...] = ()
    pair: tuple[int, str] | None = None
    kind: Literal["real", "simulated"] = "real"
    share: float | None = None
    versions: dict[str, str] | None = None
    is_lost: bool = False
    anything: Any = None


_HELD = st.builds(Held, st.integers(-9, 9), st.none() | st.text(), st.none() | st.integers(0, 99))
_CARDS = st.builds(
    Card,
    st.lists(_HELD, max_size=3).map(tuple),
    st.none() | st.tuples(st.integers(-9, 9), st.text()),
    st.sampled_from(["real", "simulated"]),
    st.none() | st.floats(-1e9, 1e9),
    st.none() | st.dictionaries(st.text(), st.text()),
    st.booleans(),
    st.none() | st.integers(0, 9) | st.text(),
)


@given(_CARDS)
def test_what_is_written_is_read(card: Card) -> None:
    """`decoded` is the inverse of `plain`, across a line of JSON."""
    (line,) = json_objects(json.dumps(plain(card)))
    assert decoded(Card, line) == card
    assert decoded_exactly(Card, line) == card


@pytest.mark.parametrize("change", [{"share": "0.5"}, {"is_lost": None}, {"more": 1}])
def test_what_must_not_change_is_refused(change: dict[str, object]) -> None:
    """`decoded_exactly` takes no default for what it cannot read, and drops nothing."""
    with pytest.raises(UnreadableError):
        decoded_exactly(Card, {**plain(Card()), **change})


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["pid", "name", "size_bytes"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_KEYS = st.sampled_from(["holders", "pair", "kind", "share", "versions", "is_lost", "other"])


@given(st.dictionaries(_KEYS, _JSON))
def test_any_json_is_read(fields: dict[str, object]) -> None:
    """A field of the wrong kind has its default, and what is read is written and read as it is."""
    card = decoded(Card, json.loads(json.dumps(fields)))
    assert decoded(Card, json.loads(json.dumps(plain(card)))) == card
    assert all(isinstance(each.pid, int) for each in card.held)


@pytest.mark.parametrize(
    ("fields", "card"),
    [
        ({"holders": [{"name": "no pid"}, 3, {"pid": 7}]}, Card((Held(7),))),
        ({"holders": [{"pid": 7, "size_bytes": -1}]}, Card((Held(7),))),
        ({"holders": [{"pid": True}, {"pid": 2**80}]}, Card()),
        ({"kind": "painted", "is_lost": 1, "share": True}, Card()),
        ({"share": float("inf")}, Card()),
        ({"share": 2}, Card(share=2.0)),
        ({"pair": [1]}, Card()),
        ({"versions": {"a": 1}}, Card()),
    ],
)
def test_what_is_passed_over(fields: dict[str, object], card: Card) -> None:
    """Entries without what they need, figures that are none, texts that are not a choice."""
    assert decoded(Card, fields) == card


@pytest.mark.parametrize("data", [None, 3, [], {}, {"pid": "7"}])
def test_a_value_that_cannot_be_made(data: object) -> None:
    """No object, or a field without a default is missing."""
    with pytest.raises(UnreadableError):
        decoded(Held, data)


def test_only_whole_objects_are_lines_of_a_record() -> None:
    """Warnings of a framework, a cut in the middle, a half line, numbers and deep nesting."""
    text = '{"a": 1}\nWARNING: x\n\n[...]\n3\n[1]\nNaN\n' + "[" * 100_000 + '\n{"b": 2}\n{"c": '
    assert list(json_objects(text)) == [{"a": 1}, {"b": 2}]


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """Nothing raises."""
    assert all(isinstance(each, dict) for each in json_objects(text))


class Color(Enum):
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
        (Color.RED, "red"),
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
    with pytest.raises(TypeError, match=f"a {type(value).__name__} cannot be written as JSON"):
        plain({"here": [value]})


def test_fields_are_written_in_order() -> None:
    """People read the documents too."""
    assert list(plain(Area(()))) == ["points", "area"]
