"""What the package exports: every annotation of a public name can be resolved."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import pytest

import gpuconf


def annotated() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function and class, and the public methods of the classes."""
    for name in gpuconf.__all__:
        value = getattr(gpuconf, name)
        if not callable(value):
            continue
        yield name, value
        if inspect.isclass(value):
            methods = ((each, getattr(value, each)) for each in vars(value))
            yield from (
                (f"{name}.{each}", method)
                for each, method in methods
                if inspect.isfunction(method) and (each == "__init__" or each[0] != "_")
            )


NAMES = dict(annotated())


@pytest.mark.parametrize("name", NAMES)
def test_its_type_hints_can_be_resolved(name: str) -> None:
    """`typing.get_type_hints`, as editors, documentation and dependency injection call it."""
    hints = get_type_hints(NAMES[name])
    assert None not in hints.values()
    if inspect.isfunction(NAMES[name]):
        assert set(hints) >= {"return"}


def test_there_are_methods_too() -> None:
    """The walk has found functions, classes and methods."""
    assert {"plan", "Activation", "ShortageError.__init__"} <= set(NAMES)
