"""A small CUDA program without TensorFlow: run on a simulated GPU with a line of Python.

``python cuda_client.py "CODE"``; CODE sees ``cuda``, ``MIB``, ``ctypes``, ``open_no_more``,
``os``, ``resource``, ``sys`` and ``time``.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
import uuid

MIB = 1024**2


class Cuda:
    """The driver, through ctypes: each call returns CUDA's error number or its result."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.started = self.library.cuInit(0)

    def count(self) -> int:
        count = ctypes.c_int(-1)
        self.library.cuDeviceGetCount(ctypes.byref(count))
        return 0 if self.started else count.value

    def uuid(self, device: int) -> str:
        raw = (ctypes.c_ubyte * 16)()
        assert self.library.cuDeviceGetUuid_v2(raw, device) == 0
        return f"GPU-{uuid.UUID(bytes=bytes(raw))}"

    def is_active(self, device: int = 0) -> bool:
        flags, active = ctypes.c_uint(), ctypes.c_int()
        answer = (ctypes.byref(flags), ctypes.byref(active))
        assert self.library.cuDevicePrimaryCtxGetState(device, *answer) == 0
        return bool(active.value)

    def enter(self, device: int = 0) -> int:
        context = ctypes.c_void_p()
        status: int = self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        return status or int(self.library.cuCtxSetCurrent(context))

    def release(self, device: int = 0) -> int:
        return int(self.library.cuDevicePrimaryCtxRelease_v2(device))

    def memory(self) -> tuple[int, int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        assert self.library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        return free.value, total.value

    def allocate(self, size_bytes: int) -> tuple[int, int]:
        """The error number, and the address."""
        address = ctypes.c_uint64()
        status = self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return status, address.value

    def free(self, address: int) -> int:
        return int(self.library.cuMemFree_v2(ctypes.c_uint64(address)))

    def write(self, address: int, data: bytes) -> int:
        length = ctypes.c_size_t(len(data))
        return int(self.library.cuMemcpyHtoD_v2(ctypes.c_uint64(address), data, length))

    def read(self, address: int, size_bytes: int) -> bytes:
        data = ctypes.create_string_buffer(size_bytes)
        where = (data, ctypes.c_uint64(address), ctypes.c_size_t(size_bytes))
        assert self.library.cuMemcpyDtoH_v2(*where) == 0
        return data.raw

    def fill32(self, address: int, value: int, count: int) -> int:
        where = (ctypes.c_uint64(address), ctypes.c_uint(value), ctypes.c_size_t(count))
        return int(self.library.cuMemsetD32_v2(*where))


def open_no_more(limit: int = 0) -> int:
    """Let this process open no more files, or ``limit`` in all; return what held before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return soft


if __name__ == "__main__":
    known = {"ctypes": ctypes, "os": os, "resource": resource, "sys": sys, "time": time}
    exec(sys.argv[1], {"cuda": Cuda(), "MIB": MIB, "open_no_more": open_no_more, **known})
