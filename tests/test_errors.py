"""Errors carry what happened, where and what to do, through pickles, copies and JSON."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import pytest

from gpuconf import errors
from gpuconf.basics.json_values import plain
from gpuconf.support.reporting.problems import problem_of

CLASSES = [
    (errors.GpuconfError, Exception, 1),
    (errors.ProfileError, ValueError, 2),
    (errors.ProfileNotFoundError, errors.ProfileError, 2),
    (errors.UsageError, errors.GpuconfError, 2),
    (errors.TooLateError, RuntimeError, 1),
    (errors.ShortageError, RuntimeError, 1),
    (errors.MissingDependencyError, ImportError, 4),
    (errors.BackendError, RuntimeError, 1),
]


@pytest.mark.parametrize(("kind", "base", "exit_code"), CLASSES)
def test_bases_and_exit_codes(
    kind: type[errors.GpuconfError], base: type[Exception], exit_code: int
) -> None:
    """``except GpuconfError`` catches all, ``except ValueError`` and the like catch their own."""
    error = kind("what happened", hint="a command")
    assert isinstance(error, base)
    assert isinstance(error, errors.GpuconfError)
    assert error.exit_code == exit_code


@pytest.mark.parametrize("kind", [kind for kind, _, _ in CLASSES])
@pytest.mark.parametrize("way", ["pickle", "copy", "deepcopy"])
def test_errors_survive_the_way_between_processes(
    kind: type[errors.GpuconfError], way: str
) -> None:
    """A worker's error arrives with its hint and its notes."""
    error = kind("what happened", hint="a command")
    vars(error)["__notes__"] = ["a note"]  # what add_note writes, from Python 3.11 on
    ways = {
        "pickle": lambda e: pickle.loads(pickle.dumps(e)),
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
    }
    again = ways[way](error)
    assert type(again) is kind
    assert str(again) == str(error) == "what happened\n  hint: a command"
    assert (again.args, vars(again)) == (error.args, vars(error))


def test_profile_errors_keep_their_place_in_a_pickle() -> None:
    """File, line, column and key are kept too."""
    error = errors.ProfileError("bad", hint="h", file="a.yaml", line=3, column=7, key="gpus")
    again = pickle.loads(pickle.dumps(error))
    assert again.as_dict() == error.as_dict()


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"file": "a.yaml", "line": 3, "column": 7}, "a.yaml:3:7: bad"),
        ({"file": "a.yaml", "line": 3}, "a.yaml:3: bad"),
        ({"file": "a.yaml"}, "a.yaml: bad"),
        ({}, "bad"),
    ],
)
def test_the_place_comes_first(place: dict[str, str | int], text: str) -> None:
    """As far as it is known, in the form that editors jump to."""
    error = errors.ProfileError("bad", **place)  # type: ignore[arg-type]  # the table is mixed
    assert str(error) == text


def test_errors_as_json() -> None:
    """All fields of an error are there as plain data, the unknown ones as null."""
    error = errors.ProfileError("bad", hint="h", file="a.yaml", line=3)
    assert json.loads(json.dumps(error.as_dict())) == {
        "type": "ProfileError",
        "message": "bad",
        "hint": "h",
        "file": "a.yaml",
        "line": 3,
        "column": None,
        "key": None,
    }


@pytest.mark.parametrize(
    "error",
    [
        errors.GpuconfError("bad", hint="h"),
        errors.ShortageError("bad"),
        errors.ProfileError("bad", hint="h", file="a.yaml", line=3, column=7, key="gpus"),
    ],
)
def test_commands_print_the_same(error: errors.GpuconfError) -> None:
    """What ``--json`` prints of an error is what `as_dict` gives to programs."""
    assert plain(problem_of(error)) == error.as_dict()


def test_no_hint_is_no_line() -> None:
    """An error without hint ends after its message."""
    assert str(errors.GpuconfError("bad")) == "bad"


def test_a_short_traceback_is_of_our_errors_alone() -> None:
    """Ours leave the function as if it had raised them; another's error keeps all of its frames."""

    @errors.with_short_tracebacks
    def refuse(kind: type[Exception], *, at: int) -> int:
        """What it does."""
        if at:
            return refuse.__wrapped__(kind, at=at - 1)  # type: ignore[attr-defined,no-any-return]
        raise kind("no")

    for kind, frames in (errors.UsageError, 2), (ValueError, 5):
        with pytest.raises(kind) as caught:
            refuse(kind, at=2)
        assert len(caught.traceback) == frames
    assert str(inspect.signature(refuse)) == "(kind: 'type[Exception]', *, at: 'int') -> 'int'"
    assert (refuse.__name__, refuse.__doc__) == ("refuse", "What it does.")
