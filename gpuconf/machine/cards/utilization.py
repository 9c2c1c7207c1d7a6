"""How busy GPUs and processes are, as NVML reports it; only `gpuconf ps` reads it."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from gpuconf.machine.cards.inventory import Gpu, Inventory
from gpuconf.machine.cards.nvml import ask, query, read_started

_WINDOW_S = 20  # of the driver's samples of processes
_SUCCESS, _NOT_FOUND = 0, 6  # nvmlReturn_t


def read_inventory_and_utilization() -> Inventory:
    """Return the machine's GPUs and their processes with ``busy_percent``.

    If NVML cannot be queried or does not answer in time, the Inventory says why.
    """
    return ask(None, _read_all, Inventory.unknown)


def _read_all(nvml: ModuleType) -> Inventory:
    inventory = read_started(nvml)
    return inventory._replace(gpus=tuple(_with_utilization(nvml, each) for each in inventory.gpus))


def _with_utilization(nvml: ModuleType, gpu: Gpu) -> Gpu:
    """Fill in ``busy_percent``; a GPU with MIG instances does not support it (nvml.h)."""
    handle = query(nvml, "nvmlDeviceGetHandleByIndex", gpu.index)
    rates = None if handle is None else query(nvml, "nvmlDeviceGetUtilizationRates", handle)
    if rates is None:
        return gpu
    gpu = gpu._replace(busy_percent=rates.gpu)
    by_pid = _busy_processes(nvml, handle)
    if gpu.processes is None or by_pid is None:
        return gpu
    # Otherwise a process computes that the list lacks, such as a server for several of them.
    is_whole = by_pid.keys() <= {each.pid for each in gpu.processes} and (by_pid or not rates.gpu)
    if not is_whole:
        return gpu
    processes = (each._replace(busy_percent=by_pid.get(each.pid, 0)) for each in gpu.processes)
    return gpu._replace(processes=tuple(processes))


def _busy_processes(nvml: ModuleType, handle: Any) -> dict[int, int] | None:
    """Return the busy percentage of each process that has computed recently; None if
    unsupported."""
    try:
        samples = nvml.nvmlDeviceGetProcessUtilization(
            handle, int((time.time() - _WINDOW_S) * 1_000_000)
        )
    except Exception as error:  # NVMLError, or one of the others listed in `query`
        return {} if getattr(error, "value", None) in (_SUCCESS, _NOT_FOUND) else None
    # The driver also returns samples that it has not filled in, with impossible figures.
    return {each.pid: each.smUtil for each in samples if 0 < each.smUtil <= 100}
