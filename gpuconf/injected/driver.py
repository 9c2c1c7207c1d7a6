"""GPU memory sizes from the CUDA driver, for plans that do not have them."""

import ctypes


def smallest_total_bytes():
    """Return the total memory of the smallest GPU that CUDA sees, else None.  Starts CUDA."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int()
        if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
            return None
        totals = [_total_bytes(cuda, number) for number in range(count.value)]
    except (OSError, AttributeError):
        return None
    return min(totals) if totals else None


def _total_bytes(cuda, number):
    device, total = ctypes.c_int(), ctypes.c_size_t()
    if cuda.cuDeviceGet(ctypes.byref(device), number):
        raise OSError("cuDeviceGet")
    if cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device):
        raise OSError("cuDeviceTotalMem")
    return total.value
