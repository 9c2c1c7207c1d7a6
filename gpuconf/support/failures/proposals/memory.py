"""What a log's figures say about the GPU's memory, TensorFlow's limit and the failed tensor."""

from __future__ import annotations

from gpuconf.basics.units import GIB, MIB
from gpuconf.support.failures.facts.tensor import has_rows, is_computed, is_of_weights, logged_size
from gpuconf.support.failures.reading import LogFacts

# Weights of at least this size suggest a different layer.
_LARGE_WEIGHTS = 64 * MIB
# The least sides of a matrix that does not depend on the batch: inputs or words, by units.
_LEAST_UNITS, _LEAST_ROWS = 100, 20_000
_HUGE = 2 * GIB
# A limit below this share of a GPU is low, if no other process uses the GPU.
_LOW_SHARE = 0.35
# No GPU has more, so that is the bound if the total is unknown.
_LARGEST_CARD = 288 * 10**9
# A cuDNN handle and its first workspace fit into this much.
_ROOM_FOR_A_HANDLE = 1536 * MIB
# JAX's own share leaves more than this part of a GPU, so with less, others hold it too.
_NEARLY_NONE = 0.05
# So many processes of one size are workers of the same job.
_SIBLINGS = 3
# Every GPU has this much for JAX, unless something else fills it.
_LITTLE_FOR_JAX = 128 * MIB


def asked_bytes(facts: LogFacts) -> int | None:
    """The size of the failed tensor, or else of the request."""
    tensor = facts.request.tensor
    return tensor.size_bytes if tensor is not None else facts.request.size_bytes


def card_total(facts: LogFacts) -> int | None:
    """The GPU's memory in bytes."""
    return facts.card.total_bytes if facts.card is not None else None


def card_free(facts: LogFacts) -> int | None:
    """How much of the GPU's memory was free, in bytes."""
    return facts.card.free_bytes if facts.card is not None else None


def limit_of(facts: LogFacts) -> int | None:
    """TensorFlow's limit in bytes."""
    if facts.dump is not None and facts.dump.limit_bytes is not None:
        return facts.dump.limit_bytes
    return facts.card.limit_bytes if facts.card is not None else None


def our_limit_refused(facts: LogFacts) -> bool:
    """Whether a gpuconf limit refused what the GPU had room for."""
    left = logged_size(facts.details.get("still_free", ""))
    return left is not None and left > (asked_bytes(facts) or 0)


def little_is_free(facts: LogFacts) -> bool:
    """Whether the log shows that other processes hold most of the GPU; False if unknown.

    A figure from the moment of the failure does not include what the process itself has taken, up
    to its own limit.
    """
    total, free = card_total(facts), card_free(facts)
    own = (facts.card.limit_bytes if facts.card else None) or 0
    return total is not None and free is not None and max(free, own) < total // 4


def handle_had_room(facts: LogFacts) -> bool:
    """Whether the GPU had room for the handle that failed, so that memory was not the problem."""
    free = facts.details.get("free_for_handle", "0 bytes")
    return int(free.removesuffix(" bytes")) >= _ROOM_FOR_A_HANDLE


def nearly_none_is_free(facts: LogFacts) -> bool:
    """Whether the GPU is so full that other processes must be using it."""
    total, free = card_total(facts), card_free(facts)
    return total is not None and free is not None and free < _NEARLY_NONE * total


def others_hold_much(facts: LogFacts) -> bool:
    """Whether the log shows other processes on the GPU; False if unknown."""
    if facts.card is not None and len(facts.card.holders) > 1:
        return True
    total, free = card_total(facts), card_free(facts)
    return total is not None and free is not None and free < 0.85 * total


def are_siblings(facts: LogFacts) -> bool:
    """Whether several processes hold the same memory, as the workers of one job do."""
    sizes = [each.size_bytes for each in facts.card.holders] if facts.card is not None else []
    return any(sizes.count(size) >= _SIBLINGS for size in sizes)


def was_free(facts: LogFacts) -> bool:
    """Whether the memory that was refused was free."""
    free, asked = card_free(facts), facts.request.size_bytes
    return free is not None and asked is not None and free >= asked


def is_larger_than_the_card(facts: LogFacts) -> bool:
    """Whether no setting can make room for this one tensor."""
    size, total = asked_bytes(facts), card_total(facts)
    return size is not None and size > (total if total is not None else _LARGEST_CARD)


def limit_is_the_wall(facts: LogFacts) -> bool:
    """Whether the GPU has much more memory than TensorFlow's limit."""
    limit, total = limit_of(facts), card_total(facts)
    return limit is not None and total is not None and limit < 0.6 * total


def limit_is_low(facts: LogFacts) -> bool:
    """Whether the limit is full, not the GPU; if so, the limit is the first thing to change."""
    limit, total = limit_of(facts), card_total(facts)
    if limit is None or total is None or others_hold_much(facts):
        return False
    return limit < _LOW_SHARE * total


def limit_is_below(least_bytes: int, facts: LogFacts) -> bool:
    """Whether TensorFlow's limit is known and lower than that."""
    limit = limit_of(facts)
    return limit is not None and limit < least_bytes


def asked_less_than(most_bytes: int, facts: LogFacts) -> bool:
    """Whether the request was so small that something else filled the GPU; a dump shows what."""
    size = asked_bytes(facts)
    return facts.dump is None and size is not None and size < most_bytes


def is_one_sample(facts: LogFacts) -> bool:
    """Whether the failed tensor belongs to a single sample."""
    tensor = facts.request.tensor
    if tensor is None or is_of_weights(facts.request.node or ""):
        return False
    return len(tensor.shape) > 2 and tensor.shape[0] == 1 < tensor.shape[1]


def are_large_weights(facts: LogFacts) -> bool:
    """Whether the failed tensor is a large matrix of weights, not computed from a batch.

    It belongs to a Dense layer after Flatten, or to an Embedding.  Integers are no weights.
    """
    tensor, node = facts.request.tensor, facts.request.node or ""
    if tensor is None or tensor.size_bytes < _LARGE_WEIGHTS or "int" in (tensor.dtype or ""):
        return False
    if is_of_weights(node, tensor.shape):
        return True
    if len(tensor.shape) != 2 or has_rows(node) or is_computed(node):
        return False
    is_table = min(tensor.shape) >= _LEAST_UNITS and max(tensor.shape) >= _LEAST_ROWS
    return is_table and (facts.batch_size is None or facts.batch_size not in tensor.shape)


def one_is_huge(facts: LogFacts) -> bool:
    """Whether a single tensor, apparently not a batch, takes up much of the GPU."""
    dump = facts.dump
    of_xla = "while trying to allocate" in (facts.exception or "")  # a whole step
    if facts.request.tensor is not None or facts.batch_size is not None or of_xla:
        return False
    if facts.request.size_bytes is not None:
        return facts.request.size_bytes >= _HUGE
    if dump is None or dump.limit_bytes is None or dump.in_use_bytes is None:
        return False
    return dump.limit_bytes - dump.in_use_bytes >= max(_HUGE, dump.limit_bytes // 2)


def jax_program_bytes(facts: LogFacts) -> int | None:
    """What JAX's compiled program needs in total."""
    return logged_size(str(facts.details.get("program_total", "")))


def little_was_asked_for_jax(facts: LogFacts) -> bool:
    """Whether the request and the program are so small that the GPU must have been full already."""
    asked = facts.request.size_bytes
    return asked is not None and max(asked, jax_program_bytes(facts) or 0) < _LITTLE_FOR_JAX
