"""On a real GPU: does the driver do what `resolve` and `read_inventory` say it does?"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

import pytest

from gpuconf.machine.cards.inventory import Inventory
from gpuconf.machine.cards.nvml import read_inventory
from gpuconf.machine.cards.visible_devices import resolve
from tests.machine.cards.spellings import SPELLINGS, spelled

pytestmark = pytest.mark.gpu

# Prints the UUID and the total memory of each device that CUDA shows; the order is CUDA's.
_ASK_CUDA = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
found, count = [], ctypes.c_int()
if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
    for ordinal in range(count.value):
        device, uuid, total = ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
        cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        getattr(cuda, "cuDeviceGetUuid_v2", cuda.cuDeviceGetUuid)(uuid, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
        found.append([bytes(uuid).hex(), total.value])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def inventory() -> Inventory:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no NVIDIA driver on this machine")
    inventory = read_inventory()
    if not inventory.gpus:
        pytest.skip(f"no GPU on this machine: {inventory.problem}")
    return inventory


def _ask_cuda(value: str | None) -> list[tuple[str, int]]:
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if value is not None:
        environment["CUDA_VISIBLE_DEVICES"] = value
    command = [sys.executable, "-c", _ASK_CUDA]
    text = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    return [(digits, total) for digits, total in json.loads(text)]


@pytest.mark.parametrize("spelling", SPELLINGS["real GPU"])
def test_cuda_shows_what_resolve_says(spelling: str | None, inventory: Inventory) -> None:
    """For each spelling the driver shows the devices that `resolve` names, in its order."""
    value = spelled(spelling, inventory.gpus[0].uuid or "")
    seen = resolve(
        value, inventory.gpus, device_order="PCI_BUS_ID", driver_version=inventory.driver_version
    )
    expected = [(device.uuid or "")[4:].replace("-", "") for device in seen.devices]
    assert [digits for digits, _ in _ask_cuda(value)] == expected


def test_total_is_nearly_cudas(inventory: Inventory) -> None:
    """The total, which fractions are taken of, is within 1 % of what CUDA gives."""
    totals = dict(_ask_cuda(None))
    for gpu in inventory.gpus:
        total_bytes = totals.get((gpu.uuid or "")[4:].replace("-", ""))
        if total_bytes is not None and gpu.total_bytes is not None:
            assert abs(gpu.total_bytes - total_bytes) < total_bytes / 100
