"""Sizes as frameworks take them: a fraction that is turned back into a limit, and whole MiB.

Python 2.7 and 3.5 to the newest, the standard library alone: the full guards use it too.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1024 * 1024


def share_of(limit_bytes, total_bytes, fraction):
    # type: (int | None, int | None, float | None) -> float
    """The fraction of the card that TensorFlow turns back into the limit in whole MiB.

    ``fraction`` is the plan's own, which is taken where it says the same.  Half a MiB on top keeps
    ``int(fraction * total)`` from falling into the MiB below.  1.0 where nothing limits the card.
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
    """The fraction of the card that PyTorch turns back into the limit, to the byte; 1.0 at most.

    2.9.1 cuts ``fraction * total`` to whole bytes and 2.15 rounds it: a quarter of a byte on top
    serves both.
    """
    return min((limit_bytes + 0.25) / total_bytes, 1.0)


def scaled_to(asked, limit_mib):
    # type: (Sequence[float], int) -> list[int]
    """``asked`` in whole MiB, each scaled down alike so that the sum is at most ``limit_mib``.

    0 and -1 mean "all" in TensorFlow; nothing asked is all too.
    """
    sizes = [size if size > 0 else limit_mib for size in asked] or [limit_mib]
    total = sum(sizes)
    if total <= limit_mib:
        return [int(size) for size in sizes]
    return [int(float(size) * limit_mib / total) for size in sizes]


def listed(sizes_mib):
    # type: (Sequence[float]) -> str
    """``2048 + 1024 MiB``."""
    return " + ".join("%g" % (size,) for size in sizes_mib) + " MiB"
