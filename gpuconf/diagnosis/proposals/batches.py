"""The batch that would fit, from what a log tells, with its arithmetic.  Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuconf.diagnosis.diagnosis import Facts
from gpuconf.diagnosis.facts.tensor import Request
from gpuconf.diagnosis.proposals.wording import sized

# Tensors of a model's own size: weights, their gradients and the optimizer's slots.
_OF_WEIGHTS = re.compile(
    r"Initializer|[Aa]dam|Momentum|RMSProp|/kernel|embeddings|BackpropFilter|_grad/.{0,300}[Ff]ilter"
    r"|random_(?:uniform|normal)|Random(?:Uniform|StandardNormal)|TruncatedNormal|Assign|VarHandle"
)
# Operations whose result has a row for each of the batch; other matrices may be weights.
_OF_ROWS = re.compile(r"MatMul|Relu|BiasAdd|Softmax|Gather|Concat|concat|Tanh|Sigmoid|Elu")
# Operations that make a tensor of nothing, as tf.ones, tf.zeros and variables do.
_MAKES_TENSORS = re.compile(
    r"Fill|ZerosLike|OnesLike|Const|Range|Random\w{1,40}|VarHandleOp|(?:Assign|Read)Variable\w{1,20}"
)
# What of Keras works on batches.
CALLS = ("evaluate", "predict", "fit")


class Fit(NamedTuple):
    """The batch size of the run that failed, the one that may fit, and why."""

    batch: int
    fits: int
    because: str


def batch_of(facts: Facts) -> int | None:
    """The run's batch: from its code, else the tensor's first dimension where that looks so."""
    if facts.batch_size is not None:
        return facts.batch_size
    tensor = facts.request.tensor
    if (
        tensor is None
        or tensor.likely_batch is None
        or _OF_WEIGHTS.search(facts.request.node or "")
    ):
        return None
    is_filter = len(tensor.shape) in (4, 5) and max(tensor.shape[:2]) <= 11
    is_matrix = len(tensor.shape) == 2 and not _OF_ROWS.search(facts.request.node or "")
    return None if is_filter or is_matrix else tensor.likely_batch


def is_of_weights(node: str) -> bool:
    """Whether an operation makes a model's weights, their gradients or an optimizer's slots."""
    return _OF_WEIGHTS.search(node) is not None


def is_of_a_batch(facts: Facts) -> bool:
    """Whether what was refused may have been of a batch: not weights, nor a bare constant."""
    node, code = facts.request.node, facts.user_code.code if facts.user_code else None
    if node is not None:
        return not _OF_WEIGHTS.search(node) and not _MAKES_TENSORS.fullmatch(node)
    return facts.request != Request() or any(f".{call}(" in (code or "") for call in CALLS)


def fitting_batch(facts: Facts) -> Fit | None:
    """The largest power of two that may fit; None where the log has no batch above 1.

    All that was in use is taken to grow with the batch.  Weights do not, so a little more may
    fit; what the step would have asked for later is not in the log, so a little less may.
    """
    batch = batch_of(facts)
    if batch is None or batch < 2:
        return None
    asked, in_use, room = _figures(facts)
    if asked is not None and room is not None and (in_use is not None or asked > room):
        return _by_figures(batch, asked, in_use, room)
    return Fit(batch, _power_of_two(batch // 2), "half of it: what was in use is not known")


def _by_figures(batch: int, asked: int, in_use: int | None, room: int) -> Fit | None:
    needed = max(asked + (in_use or 0), 1)
    fits = batch * room // needed
    if not 1 <= fits < batch:
        return None
    needs = f"({sized(in_use)} in use + {sized(asked)} asked)" if in_use else sized(asked)
    return Fit(
        batch,
        _power_of_two(fits),
        f"{batch} × {sized(room)} / {needs} = {fits}, down to a power of two",
    )


def _figures(facts: Facts) -> tuple[int | None, int | None, int | None]:
    """Bytes asked for, bytes in use, bytes there are; of one allocator."""
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
