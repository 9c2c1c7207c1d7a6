"""The child process of a comparison: run named cases on one device.

A program that compares calls :func:`run_cases` under ``if __name__ == "__main__"``.  The parent
(:mod:`benchmarks.stages`) starts it once with TensorFlow on the CPU alone and once on the simulated
GPU, and reads its output and files.  The child never falls back to another device: a table of CPU
runs must not pass for one of the GPU's.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# `benchmarks.stages` gives this process its role with these; the values are the names there.
SIDE_VARIABLE = "GPUCONF_TRAINING_SIDE"
INTER_OP_VARIABLE = "GPUCONF_TRAINING_INTER_OP_THREADS"
CARD = "card"
COMPARABLE_CPU = "cpu"
RESULT = "RESULT "  # begins a line that the parent reads; JSON follows

# Gradients of float variables belong on the GPU; counters and seeds may stay on the host.
_FLOATS = ("float16", "bfloat16", "float32", "float64")
# Nodes of a graph that compute nothing, or only move results of others, and the nodes that feed the
# graph: they are on the host on a real GPU too.
_PLUMBING = re.compile("_(Host|Device)?(Arg|Retval|Send|Recv)|NoOp|Const|.*(Dataset|Iterator).*")


class Seen(NamedTuple):
    """The result of a case: arrays to compare, and facts to report."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]


class NotOnTheCardError(Exception):
    """Something was computed on a device other than the side's."""


def side() -> str:
    """The side of this process."""
    return os.environ[SIDE_VARIABLE]


def is_card() -> bool:
    """Whether this process must compute on the GPU."""
    return side() == CARD


def run_cases(run: Callable[[str], Seen]) -> None:
    """Run the cases named on the command line and write their results.

    ``sys.argv`` has a folder and names.  Prints one line of JSON for each name that was
    started and one for each that ended; arrays go to ``FOLDER/NUMBER.npz``.  An exception only
    ends its own case.
    """
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    prepare()
    for number, name in enumerate(names):
        print_result(begun=name)
        try:
            seen = run(name)
        except Exception as error:
            print_result(ended=name, error=f"{type(error).__name__}: {error}")
            continue
        file = folder / f"{os.getpid()}-{number}.npz"
        arrays: dict[str, Any] = {key: _plain(array) for key, array in seen.arrays.items()}
        np.savez(file, **arrays)
        print_result(ended=name, file=str(file), facts=dict(seen.facts))


def prepare() -> None:
    """Set TensorFlow up as the side requires, and check that the device is the expected one."""
    import tensorflow as tf

    if threads := os.environ.get(INTER_OP_VARIABLE):
        tf.config.threading.set_inter_op_parallelism_threads(int(threads))
    if side() == COMPARABLE_CPU:
        # As on the GPU, where the bridge stops these two from requesting a GPU's own kernels.
        options = {"remapping": False, "layout_optimizer": False}
        tf.config.optimizer.set_experimental_options(options)
    cards = len(tf.config.list_logical_devices("GPU"))
    if is_card() != bool(cards):
        raise NotOnTheCardError(f"side {side()}, and TensorFlow has {cards} GPUs")


def device_name() -> str:
    """The device of this side, in the form that ends TensorFlow's device names."""
    return "GPU:0" if is_card() else "CPU:0"


def check_device(what: str, tensor: Any) -> None:
    """Raise unless ``tensor`` (or a variable) is on the device of this side."""
    if not str(tensor.device).endswith(device_name()):
        raise NotOnTheCardError(f"{what} is on {tensor.device}, not on {device_name()}")


def check_variables(variables: Any) -> int:
    """Check that every float variable is on this side's device; return their bytes."""
    size_bytes = 0
    for variable in variables:
        tensor = getattr(variable, "value", variable)
        tensor = variable if callable(tensor) else tensor
        if _dtype_name(tensor) in _FLOATS:
            check_device(f"variable {variable.name}", tensor)
            size_bytes += int(np.prod(tensor.shape)) * np.dtype("float32").itemsize
    return size_bytes


def memory() -> dict[str, int] | None:
    """``current`` and ``peak`` bytes of this side's allocator, or None without statistics."""
    import tensorflow as tf

    try:
        return dict(tf.config.experimental.get_memory_info(device_name()))
    except ValueError:  # the CPU's default allocator
        return None


def reset_memory_peak() -> None:
    """Reset the peak."""
    import tensorflow as tf

    if memory() is not None:
        tf.config.experimental.reset_memory_stats(device_name())


class PlacedGraphs:
    """Collects the graphs that TensorFlow actually runs, with the device of each node."""

    def __init__(self) -> None:
        self.on_device = self.elsewhere = 0
        self.others: set[str] = set()

    def __enter__(self) -> PlacedGraphs:
        _context().enable_graph_collection()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes():
            if node.device.endswith(device_name()):
                self.on_device += 1
            else:
                self.elsewhere += 1
                self.others.add(node.op)
        _context().disable_graph_collection()

    def _nodes(self) -> Iterator[Any]:
        for graph in _context().export_run_metadata().partition_graphs:
            yield from (node for node in graph.node if not _PLUMBING.fullmatch(node.op))


def _context() -> Any:
    from tensorflow.python.eager import context

    return context.context()


def _dtype_name(tensor: Any) -> str:
    return str(getattr(tensor.dtype, "name", tensor.dtype))


def _plain(value: Any) -> NDArray[Any]:
    """An array that ``np.savez`` can write without pickling: bfloat16 as float32."""
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array.astype(bytes) if array.dtype == object else array


def print_result(**facts: Any) -> None:
    """Print a line that the parent reads."""
    print(RESULT + json.dumps(facts), flush=True)
