"""TensorFlow's devices and their memory, queried without initializing devices."""

from __future__ import annotations

import sys
from typing import Any


def is_computing() -> bool:
    """Whether TensorFlow has initialized its devices; a JAX program may merely import it."""
    context = sys.modules.get("tensorflow.python.eager.context")
    made = getattr(context, "_context", None) if context is not None else None
    return bool(getattr(made, "_initialized", False))


def gpu_limits() -> list[tuple[str, int]]:
    """Name and limit in bytes of each logical GPU, in TensorFlow's order; initializes none.

    Raises ImportError or AttributeError if this TensorFlow lacks the API.
    """
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import pywrap_tf_session as c_api
    from tensorflow.python.eager import context

    handle = context.context()._context_handle
    if handle is None:
        return []
    listed = pywrap_tfe.TFE_ContextListDevices(handle)
    try:
        return [
            (c_api.TF_DeviceListName(listed, i), c_api.TF_DeviceListMemoryBytes(listed, i))
            for i in range(c_api.TF_DeviceListCount(listed))
            if c_api.TF_DeviceListType(listed, i) == "GPU"
        ]
    finally:
        c_api.TF_DeleteDeviceList(listed)


def do_without_nccl(extended: Any) -> bool:
    """Make a MirroredStrategy that would use NCCL reduce by copying; return whether this changed
    it.

    ``extended`` is its ``extended``. Raises ImportError or AttributeError if this TensorFlow uses
    different names.
    """
    from tensorflow.python.distribute import collective_util
    from tensorflow.python.distribute import cross_device_ops as ways

    way = extended._cross_device_ops
    # For logical devices of one GPU, TensorFlow itself uses a ring.
    is_collective = isinstance(way, ways.CollectiveAllReduce)
    nccl = collective_util.CommunicationImplementation.NCCL
    if is_collective and extended._communication_options.implementation != nccl:
        return False
    takes_nccl = is_collective or isinstance(way, ways.NcclAllReduce)
    if len(extended.worker_devices) < 2 or not takes_nccl:
        return False
    extended._cross_device_ops = ways.HierarchicalCopyAllReduce()
    return True
