"""Input for computations on a GPU, and a comparison of its results with the CPU's."""

from __future__ import annotations

from typing import Any

from gpuconf.commands.doctor.live.recorder import WrongResultError

# Tensor cores round inputs to 10 bits (TF32), which is exact for integers below 8; cuDNN may
# transform the data before it multiplies (Winograd).  Wrong results differ by more than this share.
_TOLERANCE = 1e-3


def whole_numbers(shape: tuple[int, ...], seed: int) -> Any:
    """Integers from -7 to 7 as float32; their products and sums are exact in float32."""
    import numpy as np

    return np.random.default_rng(seed).integers(-7, 8, shape).astype(np.float32)


def compare(got: Any, expected: Any) -> None:
    """Raise WrongResultError if ``got`` is not the CPU's result."""
    import numpy as np

    if got.shape != expected.shape:
        raise WrongResultError(f"the shape is {got.shape}, but it should be {expected.shape}")
    off = np.abs(got - expected)
    # Not `off > …`, which is false for NaN.
    wrong = ~(off <= _TOLERANCE * np.abs(expected).max())
    if wrong.any():
        first = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise WrongResultError(
            f"{int(wrong.sum())} of {wrong.size} numbers are wrong, the first at {first}: "
            f"{got[first]} instead of {expected[first]:g}"
        )
