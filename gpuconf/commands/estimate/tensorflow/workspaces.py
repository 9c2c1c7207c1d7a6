"""Memory that a kernel uses internally while it runs.

Examples are the columns of a convolution's gradients, the positions of a pooling's maxima, and a
transposed copy of a reduction's input.

TensorFlow's CPU kernels, which also run on the simulated GPU, unfold as many images at a time as
fit a working set of 30 MiB, or as many videos as fill the processor's last-level cache.  Sources:
``conv_grad_filter_ops.cc``, ``conv_grad_input_ops.cc``, ``conv_grad_ops_3d.cc``
(``target_working_set_size``, ``kMaxTempAllocationOverhead``).  cuDNN's workspaces are different:
cuDNN allocates what an algorithm requests, up to ``TF_CUDNN_WORKSPACE_LIMIT_IN_MB``, and runs
without a workspace if none is available.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from typing import Any, NamedTuple

from gpuconf.basics.units import KIB, MIB
from gpuconf.commands.estimate.tensorflow.memory import count_of, shape_of, size_of, static_value

_IMAGES_BYTES = 30 * MIB
_USUAL_CACHE_BYTES = 32 * MIB
_LEVEL3_CACHE_SIZE = 194  # glibc's _SC_LEVEL3_CACHE_SIZE, which Python does not name
# If one image's work is at least this large, the input gradient handles one image at a time.
_WORK_PER_THREAD_BYTES = 512 * KIB  # Eigen's second-level cache
_MOST_COLUMNS = 25  # times all tensors of a 3-D convolution; above, another kernel runs
_PLACE_BYTES = 8  # an int64 for each maximum (``tensor_out_arg_max`` in maxpooling_op.cc)
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"})
_MOST_RUNS = 3  # of kept or reduced dimensions; above, the input is transposed first
_OF_FILTERS = frozenset({"Conv2DBackpropFilter", "Conv3DBackpropFilterV2"})
_OF_INPUT = frozenset({"Conv2DBackpropInput", "Conv3DBackpropInputV2"})


class _Convolution(NamedTuple):
    """Shapes: ``image`` and ``rows`` (the result's gradient) with the batch, ``filters`` as
    (..., channels in, channels out)."""

    image: list[int]
    filters: list[int]
    rows: list[int]
    item_bytes: int
    is_of_input: bool


def workspace_bytes(operation: Any) -> int:
    """Bytes that the operation needs in addition to its inputs and outputs while it runs."""
    if operation.type == "MaxPoolGrad":
        return _PLACE_BYTES * (count_of(operation.inputs[1]) or 0)
    if operation.type in _REDUCTIONS:
        return _of_reduction(operation)
    is_of_input = operation.type in _OF_INPUT
    if not is_of_input and operation.type not in _OF_FILTERS:
        return 0
    rows = operation.inputs[2]
    image, filters = (
        (operation.outputs[0], operation.inputs[1])
        if is_of_input
        else (operation.inputs[0], operation.outputs[0])
    )
    shapes = [tensor.shape for tensor in (image, filters, rows)]
    if not all(shape.is_fully_defined() for shape in shapes):
        return 0
    sizes = (shape.as_list() for shape in shapes)
    convolution = _Convolution(next(sizes), next(sizes), next(sizes), rows.dtype.size, is_of_input)
    return _of_images(convolution) if image.shape.rank == 4 else _of_films(convolution)


def _of_reduction(operation: Any) -> int:
    """The copy with all reduced dimensions last (``shuffled`` in reduction_ops_common.h).

    Group normalization needs it, since it reduces the second, third and fifth of five dimensions.
    """
    data, axes = operation.inputs[:2]
    value, shape = static_value(axes), shape_of(data)
    if value is None:
        return 0
    reduced = {int(axis) % max(1, len(shape)) for axis in value.flat}
    are_reduced = [axis in reduced for axis, size in enumerate(shape) if size != 1]
    runs = sum(1 for _ in itertools.groupby(are_reduced))
    return (size_of(data) or 0) if runs > _MOST_RUNS else 0


def _of_images(of: _Convolution) -> int:
    columns, work = _one(of)
    many = not of.is_of_input or (of.rows[0] > 1 and work * of.item_bytes < _WORK_PER_THREAD_BYTES)
    images = _at_once(_IMAGES_BYTES, of.item_bytes, work) if many else 1
    return images * columns * of.item_bytes


def _of_films(of: _Convolution) -> int:
    if of.item_bytes == 2:
        return 0  # half precision has another kernel
    columns, work = _one(of)
    films = _at_once(cache_bytes(), of.item_bytes, work)
    elements = sum(math.prod(shape) for shape in (of.image, of.filters, of.rows))
    if films * columns // elements > _MOST_COLUMNS:
        return 0
    return films * columns * of.item_bytes


def _one(of: _Convolution) -> tuple[int, int]:
    """The columns of one image (positions x filter volume) and its total work, in elements."""
    volume, positions = math.prod(of.filters[:-1]), math.prod(of.rows[1:-1])
    channels = of.filters[-1]
    columns = positions * volume
    return columns, columns + positions * channels + volume * channels


def _at_once(set_bytes: int, item_bytes: int, work: int) -> int:
    return -(-(set_bytes // item_bytes) // max(1, work))


@functools.cache
def cache_bytes() -> int:
    """The size of this processor's last-level cache."""
    try:
        found = os.sysconf(_LEVEL3_CACHE_SIZE)
    except (ValueError, OSError):
        found = 0
    return found if found > 0 else _USUAL_CACHE_BYTES
