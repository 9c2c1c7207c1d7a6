"""Programs on the card that are not deep-learning frameworks: XGBoost, CuPy.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.basics.units import sized
from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.wording import SEE_OTHERS
from gpuconf.support.failures.reading import LogFacts

_FREE_BLOCKS = Proposal(
    "give back what CuPy's pool keeps before the large array",
    "arrays that were deleted stay in the pool, and count against its limit",
    "code",
    "import cupy\ncupy.get_default_memory_pool().free_all_blocks()",
)
_POOL_LIMIT = Proposal(
    "or raise the pool's limit",
    "the program, or CUPY_GPU_MEMORY_LIMIT, sets it",
    "code",
    "import cupy\ncupy.get_default_memory_pool().set_limit(fraction=0.9)",
)
_FEWER_BINS = Proposal(
    "hold less of the data on the card",
    "a QuantileDMatrix keeps bins instead of numbers, and fewer of them with max_bin; a model of "
    "an earlier cell holds its memory until it is deleted",
    "code",
    "data = xgboost.QuantileDMatrix(x, y, max_bin=64)",
)


_IN_PARTS = Proposal(
    "compute on parts of the data",
    "results of an operation are as large as its data, and both are on the card at once",
    "code",
    "results = [compute(part) for part in parts]",
)


def is_other_program(facts: LogFacts) -> bool:
    """Whether the log comes from one of them, and not from a framework."""
    signs = facts.signs
    return facts.framework is None and bool({"xgboost", "cupy", "rapids"} & set(signs))


def for_other_program(facts: LogFacts) -> Iterator[Proposal]:
    """The pool's own limit, other processes on the card, less data."""
    if "cupy" in facts.signs and "xgboost" not in facts.signs:
        yield _FREE_BLOCKS
        if "pool_limit" in facts.details:
            yield _POOL_LIMIT
            return
        yield SEE_OTHERS
        return
    card, asked = facts.card, facts.request.size_bytes
    free = card.free_bytes if card is not None else None
    if free is not None and asked is not None and free >= asked:
        yield SEE_OTHERS._replace(
            reason=f"{sized(asked)} were refused although {sized(free)} are free: another process "
            "took the card for a moment, or an earlier error of CUDA is in the way"
        )
        return
    yield SEE_OTHERS
    yield _FEWER_BINS if "xgboost" in facts.signs else _IN_PARTS
