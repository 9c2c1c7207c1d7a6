"""A plan as the variables that PyTorch's allocator reads: pure, torch itself is not needed."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.environ import Change
from gpuconf.profile.schema import OWNED_VARIABLES

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.profile import Profile

# Every torch reads the first; newer ones read the second too, and which of them rules where
# both are set differs between releases (c10/cuda/CUDAAllocatorConfig.h, 2.8 to 2.10).
_ALLOCATORS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING"


def wishes(profile: Profile, baseline: Mapping[str, str]) -> list[Change]:
    """``expandable_segments`` merged into what the user has in the variable, or in both."""
    wanted = profile.torch.expandable_segments
    if wanted is None:
        return []
    names = [name for name in _ALLOCATORS if baseline.get(name)] or [_ALLOCATORS[0]]
    return [
        _merged(name, baseline.get(name, ""), f"expandable_segments:{wanted}") for name in names
    ]


def _merged(name: str, theirs: str, option: str) -> Change:
    parts = [part.strip() for part in theirs.split(",") if part.strip()]
    if option in parts:
        return Change(name, theirs, OWNED_VARIABLES[name])
    if any(part.startswith("expandable_segments:") for part in parts):
        # Theirs stays; asking for ours alone makes environ.settle report the difference.
        return Change(name, option, OWNED_VARIABLES[name])
    value = ",".join([*parts, option])
    return Change(name, value, OWNED_VARIABLES[name], overrules=True)


def voided_cap(environ: Mapping[str, str]) -> str | None:
    """Why PyTorch's fraction will not cap anything in ``environ``; None where it will."""
    if environ.get(UNCACHED):
        return f"with {UNCACHED} set PyTorch takes memory call by call, without a cap"
    return None
