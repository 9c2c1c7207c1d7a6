"""Whether TensorFlow created its GPU devices before we could set anything, and where."""

from __future__ import annotations

import sys
from typing import NamedTuple

from gpuconf.backends.jax import early_init as jax
from gpuconf.machine.cards import cuda_driver


class DeviceEvidence(NamedTuple):
    """Evidence that the devices exist, and the names of calls that leave this evidence."""

    how: str
    makers: frozenset[str]


# Each was run alone in a fresh process of TF 2.21 (Keras 3 and tf_keras) and 2.15, and the eager
# context's handle was read afterwards; tests/backends/test_early_init.py runs them again.
EAGER_MAKERS = frozenset(
    {"constant", "Variable", "convert_to_tensor", "cast", "zeros", "ones", "fill", "eye"}
    | {"range", "one_hot", "normal", "uniform", "from_tensor_slices", "TensorArray", "device"}
    | {"Generator", "get_global_generator", "MirroredStrategy", "list_logical_devices"}
    | {"get_memory_info", "compile", "fit", "predict", "evaluate", "load_model", "Sequential"}
    | {"Model", "Dropout", "Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Nadam", "Mean"}
    | {"SeedGenerator"}
)
# These leave the eager context's handle empty.
SILENT_MAKERS = frozenset(
    {"list_local_devices", "gpu_device_name", "is_gpu_available", "Session", "InteractiveSession"}
    | {"get_session"}
)


def devices_exist() -> DeviceEvidence | None:
    """Return the evidence that TensorFlow's GPU devices already exist; None if they do not.

    The eager context's handle shows it for tensors and variables.  ``list_local_devices`` and
    similar calls leave that handle empty; then the driver shows it, because the devices hold the
    GPU's primary context.
    """
    from tensorflow.python.eager import context

    if getattr(context.context(), "_context_handle", None) is not None:
        return DeviceEvidence("its eager context exists", EAGER_MAKERS)
    if cuda_driver.has_primary_context() and not _others_use_cuda():
        how = "this process has a CUDA context, such as list_local_devices or a Session creates"
        return DeviceEvidence(how, SILENT_MAKERS)
    return None


def _others_use_cuda() -> bool:
    """Whether another library in this process may own that context.

    An import of JAX or torch proves nothing: Keras imports JAX if it is installed.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return True
    if jax.has_gpu_backend():
        return True
    return any(name in sys.modules for name in ("cupy", "pycuda.driver", "numba.cuda"))
