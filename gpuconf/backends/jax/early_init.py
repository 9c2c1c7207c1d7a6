"""Whether JAX created its GPU client before we could set anything, and where."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from gpuconf.backends.wrapping import ENTRANCES
from gpuconf.errors import TooLateError

_GPU_BACKENDS = {"cuda", "gpu", "rocm"}
# Calls in scripts that create it; tests/backends/test_jax_on_card.py runs each.
MAKERS = frozenset(
    {"devices", "local_devices", "device_count", "local_device_count", "default_backend"}
    | {"device_put", "array", "asarray", "zeros", "ones", "full", "arange", "eye", "linspace"}
    | {"PRNGKey", "key", "normal", "uniform", "get_backend", "process_index"}
)


def has_gpu_backend() -> bool:
    """Whether JAX has already created its GPU client, after which settings have no effect."""
    bridge = sys.modules.get(ENTRANCES["jax"].module)
    made: Mapping[str, object] = getattr(bridge, "_backends", {})
    return bool(_GPU_BACKENDS & set(made))


def too_late() -> TooLateError:
    """Build the error for a client created before gpuconf was imported, with the likely line."""
    from gpuconf.backends import find_init_line

    what = "too late: JAX initialized its GPU client"
    return find_init_line.too_late(what, MAKERS, ". Its limit can no longer be changed")
