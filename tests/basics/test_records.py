"""`basics.records` and `basics.patterns`: as typing's NamedTuple and as `re`, but lighter."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from inspect import signature
from typing import NamedTuple, get_type_hints

import pytest

from gpuconf.basics import records
from gpuconf.basics.patterns import Pattern
from gpuconf.basics.units import Amount
from gpuconf.profile.model import MemoryRules, Profile

BODY = '''
class Size({base}):
    """A size."""

    width: int
    """In pixels."""
    height: int = 2
    names: tuple[str, ...] = ()

    unit = "px"

    @property
    def area(self) -> int:
        return self.width * self.height

    @classmethod
    def square(cls, side: int) -> "Size":
        return cls(side, side)

    def __str__(self) -> str:
        return f"{{self.width}}x{{self.height}}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.area == other.area

    def __hash__(self) -> int:
        return hash(self.area)

Size.__module__
'''


def declared(base: str) -> type:
    """The class of ``BODY`` on that base, in a module with annotations as text."""
    space = {"__name__": __name__, "ours": records.NamedTuple, "typings": NamedTuple}
    exec("from __future__ import annotations\n" + BODY.format(base=base), space)
    made = space["Size"]
    assert isinstance(made, type)
    return made


class _Doubled(records.NamedTuple):
    left: int
    right: int

    def __len__(self) -> int:
        return 2 * super().__len__()


class Doubled(_Doubled):
    @property
    def total(self) -> int:
        return self.left + self.right


PAIR = (declared("ours"), declared("typings"))


@pytest.mark.parametrize(
    "asked",
    [
        "Size.__mro__[1:]",
        "Size._fields",
        "Size._field_defaults",
        "Size.__doc__",
        "Size.__module__",
        "Size.__qualname__",
        "Size.unit",
        "get_type_hints(Size)",
        "tuple(Size(1))",
        "repr(Size(1, names=('a',)))",
        "str(Size(1))",
        "Size(3).area",
        "tuple(Size.square(3))",
        "Size(1)._asdict()",
        "tuple(Size(1)._replace(height=5))",
        "tuple(Size._make([1, 2, ()]))",
        "Size(2, 3) == Size(3, 2), Size(1) == Size(9)",
        "hash(Size(2, 3)) == hash(Size(3, 2))",
        "Size.__match_args__",
        "hasattr(Size(1), '__dict__')",
    ],
)
def test_it_is_as_with_typing(asked: str) -> None:
    """Fields, defaults, methods, text, comparison: nothing that is asked differs."""
    ours, theirs = (eval(asked, {"Size": each, "get_type_hints": get_type_hints}) for each in PAIR)
    assert ours == theirs


def test_a_reader_sees_its_signature() -> None:
    """help() and the reference show fields, types and defaults."""
    shown = "(width: 'int', height: 'int' = 2, names: 'tuple[str, ...]' = ())"
    assert str(signature(PAIR[0])) == shown
    assert str(signature(Doubled)) == "(left: 'int', right: 'int')"  # that of its base


@pytest.mark.parametrize(
    ("values", "named", "complaint"),
    [
        ((), {}, "Size: no value for width"),
        ((), {"height": 3}, "Size: no value for width"),
        ((1, 2, (), 4), {}, "Size has 3 fields, not 4"),
        ((1,), {"width": 3}, "Size: 'width' is given twice"),
        ((1, 2, ()), {"width": 3}, "Size: 'width' is given twice"),
        ((1,), {"depth": 3}, "Size has no field depth"),
    ],
)
def test_wrong_arguments_are_refused(
    values: tuple[object, ...], named: dict[str, object], complaint: str
) -> None:
    """A field without a default must be given, once, and no more than there are."""
    ours, theirs = PAIR
    with pytest.raises(TypeError, match=f"^{complaint}$"):
        ours(*values, **named)
    with pytest.raises(TypeError):
        theirs(*values, **named)


def test_a_method_may_call_what_the_tuple_does() -> None:
    """super() in a class body, and a class that is derived from a value type."""
    pair = Doubled(1, 2)
    assert (pair.left, len(pair), pair.total) == (1, 4, 3)
    assert type(pair._replace(left=3)) is Doubled
    with pytest.raises(TypeError, match="Doubled has no field up"):
        pair._replace(up=3)  # type: ignore[call-arg]


def test_values_survive_pickle_and_copies() -> None:
    """A profile goes to a worker process and back, nested values and all."""
    profile = Profile("mine", memory=MemoryRules(keep_free=Amount(share=0.1)))
    back = pickle.loads(pickle.dumps(profile))
    assert back == profile
    assert type(back.memory.keep_free) is Amount
    assert {profile: 1}[back] == 1


@pytest.mark.parametrize("text", ["", "12", " 12", "12 b", "b\n12"])
@pytest.mark.parametrize("method", ["match", "fullmatch", "search"])
def test_a_pattern_finds_what_re_finds(method: str, text: str) -> None:
    """Each method is re's."""
    expected = getattr(re.compile("([0-9]+)"), method)(text)
    found = getattr(Pattern("([0-9]+)"), method)(text)
    assert (found and (found[1], found.span())) == (expected and (expected[1], expected.span()))


def test_the_flags_of_a_pattern() -> None:
    """Case and lines count unless it is said that they do not."""
    assert Pattern("a").match("A") is None
    assert Pattern("a", ignore_case=True).match("A")
    assert Pattern("^b").search("a\nb") is None
    assert Pattern("^b", multiline=True).search("a\nb")


@pytest.mark.parametrize(
    ("code", "loaded", "module"),
    [
        ("import gpuconf.basics.records", "import typing", "typing"),
        ("from gpuconf.basics.patterns import Pattern; p = Pattern('a')", "p.match('a')", "re"),
    ],
)
def test_what_they_are_there_for(code: str, loaded: str, module: str) -> None:
    """Declared records and patterns load no typing and no re; and to load it would be seen."""
    environ = {"PYTHONPATH": str(records.__file__).rpartition("/gpuconf/")[0]}
    for more, is_loaded in (("pass", "False"), (loaded, "True")):
        program = f"import sys; {code}; {more}; print({module!r} in sys.modules)"
        command = [sys.executable, "-S", "-c", program]
        done = subprocess.run(
            command, env=environ, check=True, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == is_loaded
