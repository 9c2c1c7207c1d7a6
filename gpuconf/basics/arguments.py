"""Checks for arguments of public functions: whole numbers and memory sizes."""

from __future__ import annotations

from operator import index
from typing import Any

from gpuconf.basics.units import exact_size, parse_size
from gpuconf.errors import UsageError


def whole_number(
    name: str, value: Any, *, least: int = 1, hint: str | None = None, otherwise: str = ""
) -> int:
    """Return the number, which may be a NumPy integer; raise UsageError for anything else.

    ``otherwise`` describes the other values that the caller accepts, for the error message.
    """
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        nor = f", nor {otherwise}" if otherwise else ""
        raise UsageError(
            f"{name}={value!r} is not an integer of at least {least}{nor}",
            hint=hint or f"{name}=32",
        )
    return number


def memory_size(name: str, value: Any, *, least: int = 1, hint: str) -> int:
    """Return the bytes in a string such as ``"6GiB"`` or in a number; else raise UsageError."""
    try:
        size_bytes = parse_size(value) if isinstance(value, str) else index(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}={value!r}: {error}", hint=hint) from None
    if size_bytes < least or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is less than {exact_size(least)}", hint=hint)
    return size_bytes
