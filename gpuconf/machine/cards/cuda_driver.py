"""Ask the CUDA driver about this process without initializing CUDA."""

from __future__ import annotations

import ctypes
import os
import sys


def has_started() -> bool:
    """Whether cuInit has been called in this process, so that CUDA has read its variables."""
    return _started_driver() is not None


def has_primary_context() -> bool:
    """Whether this process holds the primary CUDA context of any device.

    cuDevicePrimaryCtxGetState creates nothing.
    """
    started = _started_driver()
    if started is None:
        return False
    cuda, count = started
    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    for ordinal in range(count):
        if cuda.cuDeviceGet(ctypes.byref(device), ordinal) != 0:
            continue
        state = (ctypes.byref(flags), ctypes.byref(active))
        if cuda.cuDevicePrimaryCtxGetState(device, *state) == 0 and active.value:
            return True
    return False


def _started_driver() -> tuple[ctypes.CDLL, int] | None:
    """Return the driver and its device count; None if it is not loaded or not initialized.

    cuDeviceGetCount initializes nothing: before cuInit it fails with CUDA_ERROR_NOT_INITIALIZED.
    """
    if sys.platform == "win32":  # a DLL is found there in another way
        return None
    try:
        cuda = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    count = ctypes.c_int()
    return (cuda, count.value) if cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 else None
