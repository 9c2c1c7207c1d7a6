"""MirroredStrategy on simulated cards, which have no NCCL to sum gradients."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gpuconf.keras_api import devices, training
from gpuconf.rehearsal.agent.patching import wrap
from gpuconf.rehearsal.agent.record import AgentRecord

_NOTE = (
    "MirroredStrategy adds gradients up by HierarchicalCopyAllReduce here: simulated cards have no "
    "NCCL, whose buffers on real ones are not in the peak"
)


def do_without_nccl(record: AgentRecord) -> None:
    """Give each MirroredStrategy that would use NCCL another way to reduce, and note that."""

    def made(original: Any, extended: Any, *args: Any, **kwargs: Any) -> None:
        original(extended, *args, **kwargs)
        # Where this TensorFlow has other names, NCCL's own error comes.
        with suppress(ImportError, AttributeError):
            if devices.do_without_nccl(extended):
                record.append("notes", _NOTE)

    wrap(training.strategy_class(), "__init__", made)
