"""TensorFlow allocates the plan's reserve: its allocators belong to the process, not a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from gpuconf.backends import reserve
from gpuconf.backends.interface import PlanSource
from gpuconf.backends.tensorflow import readback
from gpuconf.basics.setting import Setting
from gpuconf.basics.units import MIB
from gpuconf.planner import GpuPlan


def take_reserve(
    tf: Any,
    read_limits: Callable[[], Mapping[str, int]],
    config: Any,
    gpus: Sequence[GpuPlan | None],
    source: PlanSource,
    *,
    in_session: bool = False,
) -> None:
    """Take each GPU's reserve once, split among its logical devices in proportion to their limits.

    ``config`` is the ConfigProto that the devices were created with.  TensorFlow would wait 10 s
    for memory above a limit, and then print its allocator's state.
    """
    if not any(gpu and gpu.preallocated_bytes for gpu in gpus):
        return
    try:
        _take(tf, read_limits(), config, gpus, source, in_session=in_session)
    except Exception as error:  # what we read must never end the user's program
        source.record(Setting("reserve", "yes", "no", f"{type(error).__name__}: {error}"))


def _take(
    tf: Any,
    limits: Mapping[str, int],
    config: Any,
    gpus: Sequence[GpuPlan | None],
    source: PlanSource,
    *,
    in_session: bool,
) -> None:

    def allocate(size_bytes: int) -> None:
        if not in_session:
            with tf.init_scope(), tf.device(name):
                _empty(tf, size_bytes)
            tf.config.experimental.reset_memory_stats(short)
            return
        graph = tf.Graph()
        with graph.as_default(), tf.device(name):
            operation = _empty(tf, size_bytes).op
        with closing(tf.compat.v1.Session(graph=graph, config=config)) as session:
            session.run(operation)

    due = [
        (group, gpu)
        for group, gpu in readback.groups(limits, config.gpu_options, gpus)
        if gpu is not None and source.claim_reserve(gpu, "tensorflow")
    ]
    for group, gpu in due:
        total = sum(limits[name] for name in group)
        size = min(gpu.preallocated_bytes, total - len(group) * reserve.FIRST_REGION_BYTES)
        for name in group:
            short = name.rpartition("device:")[2]
            sizes = reserve.region_sizes(size * limits[name] // total)
            reserve.take(short, sizes, allocate, source.record)


def _empty(tf: Any, size_bytes: int) -> Any:
    # A dimension is an int32.
    return tf.raw_ops.Empty(shape=[size_bytes // MIB, MIB // 4], dtype=tf.float32)
