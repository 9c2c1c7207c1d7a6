"""The batch that would fit, computed from a log's figures.  Pure."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.units import sized
from gpuconf.support.failures.facts.tensor import MemoryRequest, is_of_weights, makes_a_tensor
from gpuconf.support.failures.reading import LogFacts

# Nobody chooses a batch this large on purpose.
WHOLE_DATA_SET = 1000
# The last dimension of images: gray, or three colors.
_COLORS = (1, 3)
# Keras methods that work in batches.
CALLS = ("evaluate", "predict", "fit")


class Fit(NamedTuple):
    """The run's batch size: from its code, otherwise the tensor's first dimension if plausible."""

    batch: int
    fits: int
    because: str


def batch_of(facts: LogFacts) -> int | None:
    """The run's batch: from its code, else the tensor's first dimension if that looks like a
    batch."""
    return facts.batch_size if facts.batch_size is not None else facts.request.likely_batch


def is_of_a_batch(facts: LogFacts) -> bool:
    """Whether the failed tensor may depend on the batch: neither weights nor a constant."""
    node, code = facts.request.node, facts.user_code.code if facts.user_code else None
    if node is not None:
        tensor = facts.request.tensor
        shape = tensor.shape if tensor is not None else ()
        return not is_of_weights(node, shape) and not makes_a_tensor(node)
    return facts.request != MemoryRequest() or any(f".{call}(" in (code or "") for call in CALLS)


def is_computed_on_host(facts: LogFacts) -> bool:
    """Whether a model operation, not a data pipeline, computed the tensor in the host's RAM."""
    node, tensor = facts.request.node, facts.request.tensor
    if node is None or tensor is None or "data-pipeline" in facts.signs:
        return False
    is_of_images = len(tensor.shape) > 2 and tensor.shape[-1] in _COLORS
    return not is_of_images and not makes_a_tensor(node)


def fitting_batch(facts: LogFacts) -> Fit | None:
    """The largest power of two that may fit; None if the log shows no batch above 1.

    Assumes that all memory in use grows with the batch.  Weights do not, so slightly more may fit;
    the log does not show later requests of the step, so slightly less may fit.
    """
    batch = batch_of(facts)
    if batch is None or batch < 2:
        return None
    asked, in_use, room = _figures(facts)
    if asked is not None and room is not None and (in_use is not None or asked > room):
        return _by_figures(batch, asked, in_use, room)
    if batch >= WHOLE_DATA_SET:
        half, because = _power_of_two(batch // 2), "half of it, down to a power of two"
    else:
        half, because = batch // 2, "half of it"
    return Fit(batch, half, f"{because}: the memory in use is not known")


def _by_figures(batch: int, asked: int, in_use: int | None, room: int) -> Fit | None:
    needed = max(asked + (in_use or 0), 1)
    fits = batch * room // needed
    if fits < 1:
        return None
    if fits >= batch:
        return Fit(batch, batch // 2, "half of it, because the free memory is fragmented")
    needs = f"({sized(in_use)} in use + {sized(asked)} asked)" if in_use else sized(asked)
    return Fit(
        batch,
        _power_of_two(fits),
        f"{batch} × {sized(room)} / {needs} = {fits}, down to a power of two",
    )


def _figures(facts: LogFacts) -> tuple[int | None, int | None, int | None]:
    """Bytes requested, bytes in use, and bytes available, for one allocator."""
    request, dump, card = facts.request, facts.dump, facts.card
    asked = request.tensor.size_bytes if request.tensor is not None else request.size_bytes
    if dump is not None and dump.limit_bytes is not None:
        return dump.requested_bytes or asked, dump.in_use_bytes, dump.limit_bytes
    if card is None:
        return asked, None, None
    if facts.framework == "torch" and card.total_bytes is not None and card.free_bytes is not None:
        return asked, card.total_bytes - card.free_bytes, card.total_bytes
    return asked, None, card.limit_bytes or card.total_bytes


def _power_of_two(number: int) -> int:
    return 1 << max(number.bit_length() - 1, 0)
