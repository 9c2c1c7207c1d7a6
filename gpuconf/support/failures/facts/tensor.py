"""The tensor that could not be allocated: its shape, dtype, bytes and operation.  Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, Count, json_shape
from gpuconf.basics.units import parse_size
from gpuconf.support.failures.causes import NOT_GPU

# TensorFlow's dtype names, the common names, and the bytes of an element.
_TYPES = {
    "float": ("float32", 4), "float32": ("float32", 4), "double": ("float64", 8),
    "float64": ("float64", 8), "half": ("float16", 2), "float16": ("float16", 2),
    "bfloat16": ("bfloat16", 2), "int8": ("int8", 1), "uint8": ("uint8", 1), "int16": ("int16", 2),
    "uint16": ("uint16", 2), "int32": ("int32", 4), "uint32": ("uint32", 4),
    "int64": ("int64", 8), "uint64": ("uint64", 8), "bool": ("bool", 1),
    "complex64": ("complex64", 8), "complex128": ("complex128", 16),
}  # fmt: skip
# "shape[32,64]" from TensorFlow; "shape (60000, 224) and data type float32" from NumPy. An empty
# tensor, which has a dimension of 0, never fails to allocate.
_SHAPE = re.compile(r"[Ss]hape:? ?[\[(]([1-9]\d{0,18}(?:, ?[1-9]\d{0,18}){0,15}),?[\])]")
_OLD_SHAPE = re.compile(r"shape(?:dim \{ size: [1-9]\d{0,18} \} ?){1,16}")
_TYPE = re.compile(r"\b(?:and |data )type:? (\w{1,40})|dtype[:=] ?(?:tf\.|np\.)?(\w{1,40})")
_DEVICE = re.compile(
    r"device:([A-Z_]{1,20}:\d{1,4})(?= by| in|\W{0,9}$)| on \S{0,200}device:([A-Z_]{1,20}:\d{1,4})"
)
_ALLOCATOR = re.compile(r"(?:by a|A)llocator \(?(\w{1,80})\)?")
# Places where TensorFlow names the operation, most reliable first.
_NODES = (
    re.compile(r"Detected at node '?([^\s']{1,400})'? defined at"),
    re.compile(r"\{\{node ([^}]{1,400})\}\}"),
    re.compile(r"\[\[(?:Node: |node )([^\s=\]]{1,400})"),
    re.compile(r"requested by op ([^\s\x1b]{1,400})"),
    re.compile(r"\[Op:(?!__inference)(\w{1,200})\]"),
    re.compile(r"__wrapped__(\w{1,200}?)_device_"),
    re.compile(r"in order to run (\w{1,200})"),
    re.compile(r"failed at (batch_matmul|crop_and_resize|assign|random)_op"),
)
_ROUNDED = re.compile(r"rounded to (\d{1,19})\)")
_BYTES = re.compile(
    r"(?:trying to allocate|[Oo]ut of memory (?:allocating|to allocate)|Allocation of"
    r"|tried to allocate|allocation_bytes|Requested memory:|[Ff]ailed to alloc(?:ate)?"
    r"|(?:memory|buffer) of size:?) (\d{1,3}(?:,\d{3}){1,6}|\d{3,19})(?: bytes|B\b|(?![\d.,])\b)"
    r"|[( ](\d{3,19}) ?(?:bytes|B)\)"
)
_SIZED = re.compile(
    r"(?:Bin for|trying to allocate|Tried to allocate|Unable to allocate|request for"
    r"|Cannot allocate|failed to allocate|to allocate) (\d[\d.,]{0,15}) ?([KMGTP]i?B)\b"
)  # fmt: skip
# Tensors that belong to the model: weights, their gradients and the optimizer's slots.
_OF_WEIGHTS = re.compile(
    r"Initializer|(?:[Aa]dam|Momentum|RMSProp)(?!\w{0,20}/gradients/)|/kernel|embeddings|BackpropFilter|_grad/.{0,300}[Ff]ilter"
    r"|random_(?:uniform|normal)|Random(?:Uniform|StandardNormal)|TruncatedNormal|[Aa]ssign|VarHandle|^random$"
)
# Operations whose result has a row per sample; other matrices may be weights.
_OF_ROWS = re.compile(r"MatMul|Relu|BiasAdd|Softmax|Gather|Concat|concat|Tanh|Sigmoid|Elu|logits")
# Operations whose result is computed, even if their scope bears the name of a layer's weights.
_COMPUTES = re.compile(r"(?:^|/)(?:one_hot|OneHot|Tile|Softmax)(?:_\d{1,4})?$")
# Operations that create a tensor without inputs, such as tf.ones, tf.zeros and variables.
_MAKES_TENSORS = re.compile(
    r"Fill|ZerosLike|OnesLike|Const|Range|Random\w{1,40}|VarHandleOp|(?:Assign|Read)Variable\w{1,20}"
)


# Operations with a row for each box of an image, many to a sample.
_OF_BOXES = re.compile(r"crop_and_resize|CropAndResize|NonMaxSuppression")
# The largest height or width of a convolution filter.
_LARGEST_FILTER = 11


class Tensor(NamedTuple):
    """A tensor: ``shape``, ``dtype`` (None if the message has none), ``size_bytes``.

    ``arithmetic`` shows how shape and dtype give the bytes.
    """

    shape: tuple[Count, ...]
    """Its dimensions."""
    dtype: str | None
    """Its dtype; None if not stated, then float32 is assumed."""
    size_bytes: Bytes
    """The dimensions times the bytes of one element."""
    arithmetic: str
    """The multiplication, for people."""


@json_shape(computed=("likely_batch",))
class MemoryRequest(NamedTuple):
    """A memory request: its operation or node, its allocator, and the bytes."""

    tensor: Tensor | None = None
    """The tensor, if its shape is stated."""
    size_bytes: Bytes | None = None
    """The requested size."""
    node: str | None = None
    """The operation, or its node in the graph."""
    device: str | None = None
    """The device, for example GPU:0."""
    allocator: str | None = None
    """The allocator, for example GPU_0_bfc."""

    @property
    def likely_batch(self) -> Count | None:
        """The tensor's first dimension if it looks like a batch, not like weights."""
        shape, node = () if self.tensor is None else self.tensor.shape, self.node or ""
        if len(shape) < 2 or shape[0] < 2 or is_of_weights(node, shape) or makes_a_tensor(node):
            return None
        if is_of_boxes(node):
            return None
        is_filter = len(shape) in (4, 5) and max(shape[:2]) <= _LARGEST_FILTER
        is_other_matrix = len(shape) == 2 and not has_rows(node)
        return None if is_filter or is_other_matrix else shape[0]


def request_in(text: str) -> MemoryRequest:
    """The memory request that a message states; empty if it states none."""
    tensor = tensor_in(text)
    return MemoryRequest(
        tensor,
        requested_bytes(text) if tensor is None or tensor.dtype is None else tensor.size_bytes,
        node_in(text),
        first_group(_DEVICE.search(text)),
        first_group(_ALLOCATOR.search(text)),
    )


def tensor_in(text: str) -> Tensor | None:
    """The first tensor whose shape a message states.  Without a dtype, float32 is assumed."""
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
    """A tensor of a TensorFlow or NumPy ``dtype``; None for a dtype without a fixed size."""
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
    """The requested bytes that a message states; prefers the exact figure to the rounded one."""
    rounded = _ROUNDED.search(text)
    if rounded is not None:
        return int(rounded[1])
    exact = _BYTES.search(text)
    if exact is not None:
        return int((exact[1] or exact[2]).replace(",", ""))
    sized = _SIZED.search(text)
    return logged_size(f"{sized[1]}{sized[2]}") if sized else None


def logged_size(text: str) -> int | None:
    """Parse a size in log notation, such as ``1.95GiB`` or ``535. MiB``; None if it is not one."""
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
    """The request in the cause's lines, in the lines below them, or in ``asked`` from the dump."""
    if cause == NOT_GPU:
        return MemoryRequest()
    if cause == "oom-device-startup":  # the size of the region, not of a later operation's request
        return _filled(MemoryRequest(), map(request_in, lines))._replace(tensor=None, node=None)
    stated = _one_refusal(
        [*map(request_in, reversed(lines)), *map(request_in, reversed(texts))], asked
    )
    return stated if stated.size_bytes is not None else stated._replace(size_bytes=asked)


def _one_refusal(stated: list[MemoryRequest], asked: int | None) -> MemoryRequest:
    """The last of several refusals, the one in the dump; the refusal's other lines fill the
    gaps."""
    sized = [each for each in stated if each.size_bytes is not None]
    of_dump = [each for each in sized if asked is None or _is_about(each.size_bytes, asked)]
    with_tensor = [each for each in of_dump if each.tensor is not None]
    base = next(iter([*with_tensor, *of_dump]), None)
    if base is None:
        base = MemoryRequest(size_bytes=asked)
    same = [each for each in sized if _is_about(each.size_bytes, base.size_bytes or 0)]
    return _filled(base, [*same, *(each for each in stated if each.size_bytes is None)])


def _is_about(size: int | None, other: int) -> bool:
    """Whether two figures belong to the same request: the allocator and the messages round."""
    return size is not None and abs(size - other) <= max(other // 8, 4096)


def _filled(base: MemoryRequest, others: Iterable[MemoryRequest]) -> MemoryRequest:
    for other in others:
        stated = other._asdict()
        base = base._replace(
            **{name: stated[name] for name, known in base._asdict().items() if known is None}
        )
    return base


def is_of_weights(node: str, shape: tuple[int, ...] = ()) -> bool:
    """Whether an operation creates a model's weights, their gradients or an optimizer's slots.

    The operation that computes a filter's gradient also holds feature maps, in a different layout.
    """
    if "Filter" in node and len(shape) == 4 and max(shape[:2]) > _LARGEST_FILTER:
        return False
    return _OF_WEIGHTS.search(node) is not None and not is_computed(node)


def is_computed(node: str) -> bool:
    """Whether an operation computes a matrix that is neither weights nor a row per sample."""
    return _COMPUTES.search(node) is not None


def has_rows(node: str) -> bool:
    """Whether an operation's matrix has a row per sample of the batch."""
    return _OF_ROWS.search(node) is not None


def is_of_boxes(node: str) -> bool:
    """Whether an operation's first dimension counts boxes, not samples."""
    return _OF_BOXES.search(node) is not None


def makes_a_tensor(node: str) -> bool:
    """Whether an operation creates a tensor without inputs, independent of any batch."""
    return _MAKES_TENSORS.fullmatch(node) is not None


def first_group(found: re.Match[str] | None) -> str | None:
    """The first non-empty group of a match; None if there is no match."""
    return None if found is None else next((group for group in found.groups() if group), None)
