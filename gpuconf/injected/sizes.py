"""Converts limits to the units of frameworks: fractions and whole MiB.

Runs on Python 2.7, and on 3.5 and newer, with the standard library only; gpuconf itself uses it
too.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1024 * 1024


def share_of(limit_bytes, total_bytes, fraction):
    # type: (int | None, int | None, float | None) -> float
    """Return the fraction of the GPU that TensorFlow converts back to the limit in whole MiB.

    ``fraction`` comes from the plan and is used if it gives the same limit.  An extra half MiB
    keeps ``int(fraction * total)`` from dropping to the next lower MiB.  1.0 for a GPU without a
    limit.
    """
    if limit_bytes is None or not total_bytes:
        return 1.0 if fraction is None else fraction
    if limit_bytes + MIB // 2 >= total_bytes:
        return 1.0
    if fraction is not None and int(fraction * total_bytes) // MIB * MIB == limit_bytes:
        return fraction
    return float(limit_bytes + MIB // 2) / total_bytes


def exact_share(limit_bytes, total_bytes):
    # type: (int, int) -> float
    """Return the fraction of the GPU that PyTorch converts back to the exact limit; at most 1.0.

    PyTorch 2.9.1 truncates ``fraction * total`` to whole bytes, and 2.15 rounds it.  An extra
    quarter of a byte works for both.
    """
    return min((limit_bytes + 0.25) / total_bytes, 1.0)


def scaled_to(asked, limit_mib):
    # type: (Sequence[float], int) -> list[int]
    """Return ``asked`` in whole MiB, scaled down proportionally to a sum of at most ``limit_mib``.

    0 and -1 mean "all" in TensorFlow, and so does an empty list.
    """
    sizes = [size if size > 0 else limit_mib for size in asked] or [limit_mib]
    total = sum(sizes)
    if total <= limit_mib:
        return [int(size) for size in sizes]
    return [int(float(size) * limit_mib / total) for size in sizes]


def listed(sizes_mib):
    # type: (Sequence[float]) -> str
    """Return a string such as ``2048 + 1024 MiB``."""
    return " + ".join("%g" % (size,) for size in sizes_mib) + " MiB"
