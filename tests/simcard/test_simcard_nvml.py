"""The real nvidia-ml-py over the stand-in NVML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card
from tests import golden
from tests.programs.card_clients import RunClient, StartClient

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

_ASK = """
import json, pynvml as n

n.nvmlInit()
def text(value): return value.decode() if isinstance(value, bytes) else value
def ask(function, *arguments):
    try: return text(function(*arguments))
    except n.NVMLError as error: return type(error).__name__
"""
_FACTS = (
    _ASK
    + """
h = n.nvmlDeviceGetHandleByIndex(1)
plain, newer = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
print(json.dumps({
    "count": n.nvmlDeviceGetCount(),
    "name": ask(n.nvmlDeviceGetName, h),
    "uuid": ask(n.nvmlDeviceGetUUID, h),
    "index": ask(n.nvmlDeviceGetIndex, n.nvmlDeviceGetHandleByUUID(ask(n.nvmlDeviceGetUUID, h))),
    "bus": text(n.nvmlDeviceGetPciInfo(h).busId),
    "by bus": ask(n.nvmlDeviceGetIndex, n.nvmlDeviceGetHandleByPciBusId(b"00000000:02:00.0")),
    "by cuda's bus": ask(n.nvmlDeviceGetIndex, n.nvmlDeviceGetHandleByPciBusId(b"0000:02:00.0")),
    "memory": [plain.total, plain.free, plain.used],
    "memory v2": [newer.total, newer.reserved, newer.free, newer.used],
    "capability": ask(n.nvmlDeviceGetCudaComputeCapability, h),
    "display": [ask(n.nvmlDeviceGetDisplayActive, n.nvmlDeviceGetHandleByIndex(i)) for i in (0, 1)],
    "driver": ask(n.nvmlSystemGetDriverVersion),
    "cuda": ask(n.nvmlSystemGetCudaDriverVersion_v2),
    "graphics": ask(n.nvmlDeviceGetGraphicsRunningProcesses, h),
    "processes": ask(n.nvmlDeviceGetComputeRunningProcesses, h),
    "mig": ask(n.nvmlDeviceGetMigMode, h),
    "ecc": ask(n.nvmlDeviceGetEccMode, h),
    "fields": [value.nvmlReturn for value in n.nvmlDeviceGetFieldValues(h, [82, 83])],
    "confidential": n.nvmlSystemGetConfComputeState().ccFeature,
    "left out": ask(n.nvmlDeviceGetTemperature, h, 0),
    "no such index": ask(n.nvmlDeviceGetHandleByIndex, 2),
    "no such uuid": ask(n.nvmlDeviceGetHandleByUUID, b"GPU-nothing"),
    "no such bus": ask(n.nvmlDeviceGetHandleByPciBusId, b"0000:09:00.0"),
}))
"""
)


def test_every_fact_is_that_of_the_card(two_cards: Card, run_client: RunClient) -> None:
    """Names, numbers and refusals, read by the real client library."""
    two_cards.set_desktop_bytes(7 * MIB, index=1)
    done = run_client(two_cards, _FACTS)
    assert done.returncode == 0, done.stderr
    facts = json.dumps(json.loads(done.stdout), indent=2)
    golden.check(Path(__file__).with_name("nvml_facts.json"), facts + "\n")


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    ],
)
def test_processes_are_listed_with_their_pids(
    two_cards: Card, run_client: RunClient, start_client: StartClient, function: str
) -> None:
    """Two processes on GPU 0 and none on GPU 1, each with what it holds."""
    expected = []
    for mib in (100, 300):
        code = f"cuda.enter(); cuda.allocate({mib} * MIB); print('ready', flush=True); input()"
        child = start_client(two_cards, code)
        assert child.read_line() == "ready"
        expected.append([child.pid, mib * MIB])
    code = f"""{_ASK}
lists = [n.{function}(n.nvmlDeviceGetHandleByIndex(i)) for i in (0, 1)]
name = text(n.nvmlSystemGetProcessName(lists[0][0].pid))
print(json.dumps([[[p.pid, p.usedGpuMemory] for p in each] for each in lists]), name)
"""
    done = run_client(two_cards, code)
    listed, _, name = done.stdout.rpartition(" ")
    assert json.loads(listed) == [expected, []], done.stderr
    assert "python" in name
