"""What an operation's name tells of the tensor that it makes.  Pure."""

from __future__ import annotations

import re

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


def is_of_weights(node: str) -> bool:
    """Whether an operation makes a model's weights, their gradients or an optimizer's slots."""
    return _OF_WEIGHTS.search(node) is not None


def has_rows(node: str) -> bool:
    """Whether an operation's matrix has a row for each of the batch."""
    return _OF_ROWS.search(node) is not None


def makes_a_tensor(node: str) -> bool:
    """Whether an operation makes a tensor of nothing, which is of no batch."""
    return _MAKES_TENSORS.fullmatch(node) is not None
