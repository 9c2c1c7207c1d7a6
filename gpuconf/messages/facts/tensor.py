"""The tensor that found no room: its shape, type and bytes, and who asked for it.  Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from gpuconf.json_shape import Bytes, Count, json_shape
from gpuconf.messages.causes import NOT_GPU
from gpuconf.units import parse_size

# TensorFlow's names of types, what people call them, and bytes an element.
_TYPES = {
    "float": ("float32", 4), "float32": ("float32", 4), "double": ("float64", 8),
    "float64": ("float64", 8), "half": ("float16", 2), "float16": ("float16", 2),
    "bfloat16": ("bfloat16", 2), "int8": ("int8", 1), "uint8": ("uint8", 1), "int16": ("int16", 2),
    "uint16": ("uint16", 2), "int32": ("int32", 4), "uint32": ("uint32", 4),
    "int64": ("int64", 8), "uint64": ("uint64", 8), "bool": ("bool", 1),
    "complex64": ("complex64", 8), "complex128": ("complex128", 16),
}  # fmt: skip
# "shape[32,64]" of TensorFlow; "shape (60000, 224) and data type float32" of NumPy.
# An empty tensor, which has a 0 there, is never what found no room.
_SHAPE = re.compile(r"[Ss]hape:? ?[\[(]([1-9]\d{0,18}(?:, ?[1-9]\d{0,18}){0,15}),?[\])]")
_OLD_SHAPE = re.compile(r"shape(?:dim \{ size: [1-9]\d{0,18} \} ?){1,16}")
_TYPE = re.compile(r"\b(?:and |data )type:? (\w{1,40})|dtype[:=] ?(?:tf\.|np\.)?(\w{1,40})")
_DEVICE = re.compile(
    r"device:([A-Z_]{1,20}:\d{1,4})(?= by| in|\W{0,9}$)| on \S{0,200}device:([A-Z_]{1,20}:\d{1,4})"
)
_ALLOCATOR = re.compile(r"(?:by a|A)llocator \(?(\w{1,80})\)?")
# Where TensorFlow names the operation, the surest first.
_NODES = (
    re.compile(r"Detected at node '?([^\s']{1,400})'? defined at"),
    re.compile(r"\{\{node ([^}]{1,400})\}\}"),
    re.compile(r"\[\[(?:Node: |node )([^\s=\]]{1,400})"),
    re.compile(r"requested by op ([^\s\x1b]{1,400})"),
    re.compile(r"\[Op:(?!__inference)(\w{1,200})\]"),
    re.compile(r"__wrapped__(\w{1,200}?)_device_"),
    re.compile(r"in order to run (\w{1,200})"),
)
_ROUNDED = re.compile(r"rounded to (\d{1,19})\)")
_BYTES = re.compile(
    r"(?:trying to allocate|Out of memory allocating|Allocation of|tried to allocate"
    r"|allocation_bytes|Requested memory:|failed to alloc(?:ate)?|memory of size:?)"
    r" (\d{1,3}(?:,\d{3}){1,6}|\d{3,19})(?: bytes|B\b|(?![\d.,])\b)"
    r"|[( ](\d{3,19}) ?(?:bytes|B)\)"
)
_SIZED = re.compile(
    r"(?:Bin for|trying to allocate|Tried to allocate|Unable to allocate|request for"
    r"|failed to allocate|to allocate) (\d[\d.,]{0,15}) ?([KMGTP]i?B)\b"
)  # fmt: skip
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


# The sides of a filter of a convolution.
_LARGEST_FILTER = 11


class Tensor(NamedTuple):
    """A tensor: ``shape``, ``dtype`` (None where the message names none), ``size_bytes``.

    ``arithmetic`` shows how the bytes come from shape and type.
    """

    shape: tuple[Count, ...]
    """Its dimensions."""
    dtype: str | None
    """Its type; None: not stated, and taken for float32."""
    size_bytes: Bytes
    """The dimensions times the bytes of one element."""
    arithmetic: str
    """How that comes about, for people."""


@json_shape(computed=("likely_batch",))
class MemoryRequest(NamedTuple):
    """What was asked for: by which operation or node, of which allocator, how many bytes."""

    tensor: Tensor | None = None
    """The tensor, where its shape is stated."""
    size_bytes: Bytes | None = None
    """How much was asked for."""
    node: str | None = None
    """The operation, or its node in the graph."""
    device: str | None = None
    """The device, as GPU:0."""
    allocator: str | None = None
    """The allocator, as GPU_0_bfc."""

    @property
    def likely_batch(self) -> Count | None:
        """The tensor's first dimension where that looks like the batch: not in weights."""
        shape, node = () if self.tensor is None else self.tensor.shape, self.node or ""
        if len(shape) < 2 or shape[0] < 2 or is_of_weights(node, shape) or makes_a_tensor(node):
            return None
        is_filter = len(shape) in (4, 5) and max(shape[:2]) <= _LARGEST_FILTER
        is_other_matrix = len(shape) == 2 and not has_rows(node)
        return None if is_filter or is_other_matrix else shape[0]


def request_in(text: str) -> MemoryRequest:
    """What a message says was asked for; nothing where it says nothing."""
    tensor = tensor_in(text)
    return MemoryRequest(
        tensor,
        requested_bytes(text) if tensor is None or tensor.dtype is None else tensor.size_bytes,
        node_in(text),
        first_group(_DEVICE.search(text)),
        first_group(_ALLOCATOR.search(text)),
    )


def tensor_in(text: str) -> Tensor | None:
    """The first tensor whose shape a message states.  Without a type, bytes are for float32."""
    found, old = _SHAPE.search(text), _OLD_SHAPE.search(text)
    if found is not None:
        shape = tuple(int(size) for size in re.findall(r"\d{1,99}", found[1]))
        stated = _TYPE.search(text, found.end(), found.end() + 60)
    elif old is not None:
        shape = tuple(int(size) for size in re.findall(r"size: (\d{1,19})", old[0]))
        stated = None
    else:
        return None
    return tensor_of(shape, (stated[1] or stated[2]) if stated else None)


def tensor_of(shape: tuple[int, ...], dtype: str | None) -> Tensor | None:
    """A tensor of TensorFlow's or NumPy's ``dtype``; None for a type without a fixed size."""
    name, item = _TYPES.get(dtype or "float", (dtype or "", 0))
    if not item or not shape or max(shape) > 2**62:
        return None
    size = item * math.prod(shape)
    shown = " × ".join(f"{each}" for each in (*shape, item))
    return Tensor(
        shape,
        name if dtype else None,
        size,
        f"{shown} B = {size} B",
    )


def requested_bytes(text: str) -> int | None:
    """The bytes that a message says were asked for, the exact figure before the rounded."""
    rounded = _ROUNDED.search(text)
    if rounded is not None:
        return int(rounded[1])
    exact = _BYTES.search(text)
    if exact is not None:
        return int((exact[1] or exact[2]).replace(",", ""))
    sized = _SIZED.search(text)
    return logged_size(f"{sized[1]}{sized[2]}") if sized else None


def logged_size(text: str) -> int | None:
    """A size as logs have it, such as ``1.95GiB`` or ``535. MiB``; None for what is none."""
    cleaned = re.sub(r"\.(?=\s{0,9}[A-Za-z])", "", text.replace(",", ""))
    try:
        return parse_size(cleaned)
    except ValueError:
        return None


def node_in(text: str) -> str | None:
    """The operation that a message names, or its node in the graph."""
    for pattern in _NODES:
        found = pattern.search(text)
        if found is not None:
            return found[1]
    return None


def request_of(cause: str, lines: list[str], texts: list[str], asked: int | None) -> MemoryRequest:
    """What the cause's own lines, those below them, or ``asked``, the dump's, say was asked for."""
    if cause == NOT_GPU:
        return MemoryRequest()
    if cause == "oom-device-startup":  # the region, not what a later operation asked for
        return _filled(MemoryRequest(), map(request_in, lines))._replace(tensor=None, node=None)
    stated = _one_refusal(
        [*map(request_in, reversed(lines)), *map(request_in, reversed(texts))], asked
    )
    return stated if stated.size_bytes is not None else stated._replace(size_bytes=asked)


def _one_refusal(stated: list[MemoryRequest], asked: int | None) -> MemoryRequest:
    """Of several refusals the last, of which the dump is; what is missing, from its other lines."""
    sized = [each for each in stated if each.size_bytes is not None]
    of_dump = [each for each in sized if asked is None or _is_about(each.size_bytes, asked)]
    with_tensor = [each for each in of_dump if each.tensor is not None]
    base = next(iter([*with_tensor, *of_dump]), None)
    if base is None:
        base = MemoryRequest(size_bytes=asked)
    same = [each for each in sized if _is_about(each.size_bytes, base.size_bytes or 0)]
    return _filled(base, [*same, *(each for each in stated if each.size_bytes is None)])


def _is_about(size: int | None, other: int) -> bool:
    """Whether two figures are of one request: the allocator rounds, and messages do."""
    return size is not None and abs(size - other) <= max(other // 8, 4096)


def _filled(base: MemoryRequest, others: Iterable[MemoryRequest]) -> MemoryRequest:
    for other in others:
        stated = other._asdict()
        base = base._replace(
            **{name: stated[name] for name, known in base._asdict().items() if known is None}
        )
    return base


def is_of_weights(node: str, shape: tuple[int, ...] = ()) -> bool:
    """Whether an operation makes a model's weights, their gradients or an optimizer's slots.

    What makes a filter's gradient also holds feature maps, in another layout.
    """
    if "Filter" in node and len(shape) == 4 and max(shape[:2]) > _LARGEST_FILTER:
        return False
    return _OF_WEIGHTS.search(node) is not None


def has_rows(node: str) -> bool:
    """Whether an operation's matrix has a row for each of the batch."""
    return _OF_ROWS.search(node) is not None


def makes_a_tensor(node: str) -> bool:
    """Whether an operation makes a tensor of nothing, which is of no batch."""
    return _MAKES_TENSORS.fullmatch(node) is not None


def first_group(found: re.Match[str] | None) -> str | None:
    """The first group that matched; None without a match."""
    return None if found is None else next((group for group in found.groups() if group), None)
