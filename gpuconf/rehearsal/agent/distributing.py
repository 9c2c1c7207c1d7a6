"""MirroredStrategy on simulated cards, which have no NCCL to add gradients up with."""

from __future__ import annotations

from typing import Any

from gpuconf.rehearsal.agent.patching import wrap
from gpuconf.rehearsal.agent.record import Record

_NOTE = (
    "MirroredStrategy adds gradients up by HierarchicalCopyAllReduce here: simulated cards have no "
    "NCCL, whose buffers on real ones are not in the peak"
)


def do_without_nccl(record: Record) -> None:
    """Give each MirroredStrategy that would use NCCL another way to reduce, and note that."""
    from tensorflow.python.distribute import collective_util
    from tensorflow.python.distribute import cross_device_ops as ways
    from tensorflow.python.distribute.mirrored_strategy import MirroredExtended

    nccl = collective_util.CommunicationImplementation.NCCL

    def made(original: Any, extended: Any, *args: Any, **kwargs: Any) -> None:
        original(extended, *args, **kwargs)
        try:
            way = extended._cross_device_ops
            # On logical devices of one card TensorFlow itself takes a ring.
            collective = isinstance(way, ways.CollectiveAllReduce)
            if collective and extended._communication_options.implementation != nccl:
                return
            if len(extended.worker_devices) > 1 and (
                collective or isinstance(way, ways.NcclAllReduce)
            ):
                extended._cross_device_ops = ways.HierarchicalCopyAllReduce()
                record.append("notes", _NOTE)
        except AttributeError:  # private names of another version: NCCL's error tells
            pass

    wrap(MirroredExtended, "__init__", made)
