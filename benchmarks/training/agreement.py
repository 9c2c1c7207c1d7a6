"""How well two sides agree: pure, on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class Agreement(NamedTuple):
    """``difference`` is the largest over all arrays, relative to the largest value of its array.

    ``problem`` says why a comparison is impossible: different names, shapes or types, a NaN on one
    side only, or nothing to compare.
    """

    difference: float
    problem: str | None = None

    @property
    def bit_equal(self) -> bool:
        """Whether all arrays are identical, to the last bit."""
        return self.problem is None and self.difference == 0.0

    def within(self, tolerance: float) -> bool:
        """Whether the sides differ by at most ``tolerance``; 0 requires equal bits."""
        return self.problem is None and self.difference <= tolerance


def agreement(one: Arrays, other: Arrays) -> Agreement:
    """Compare arrays with the same names."""
    if not one or not any(array.size for array in one.values()):
        return Agreement(float("inf"), "there is nothing to compare")
    if one.keys() != other.keys():
        return Agreement(float("inf"), f"{sorted(one)} against {sorted(other)}")
    largest = 0.0
    for name, array in one.items():
        found = _compare(array, other[name])
        if found.problem is not None:
            return Agreement(float("inf"), f"{name}: {found.problem}")
        largest = max(largest, found.difference)
    return Agreement(largest)


def _compare(one: NDArray[Any], other: NDArray[Any]) -> Agreement:
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        seen = f"{one.dtype}{list(one.shape)} against {other.dtype}{list(other.shape)}"
        return Agreement(float("inf"), seen)
    if one.tobytes() == other.tobytes():
        return Agreement(0.0)
    if one.dtype.kind not in "fc":
        return Agreement(float("inf"), f"{int((one != other).sum())} of {one.size} values differ")
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return Agreement(float("inf"), "a NaN or infinity on one side only")
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return Agreement(float("inf"), "infinities differ")
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    a, b = one[finite].astype(wide), other[finite].astype(wide)
    scale = float(np.max(np.abs(a), initial=0.0)) or 1.0
    return Agreement(float(np.max(np.abs(a - b), initial=0.0)) / scale)
