"""The probe on a real GPU: `make gpu`."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.live import measure
from gpuconf.machine.cards import read_inventory
from tests.commands.doctor.live_records import TENSORFLOWS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not read_inventory().gpus, reason="needs a GPU")]


def test_a_real_card_passes() -> None:
    """Every step is right under shared-desktop, and a context has the size of a real one."""
    report = measure("shared-desktop", progress=print)
    for finding in report.findings:
        print(finding.id, finding.status, finding.summary, *finding.detail, sep="\n  ")
    found = {finding.id: finding.status for finding in report.findings}
    assert set(found) == TENSORFLOWS
    assert set(found.values()) <= {"ok", "warn"}
    assert all(found[name] == "ok" for name in ("live.matmul", "live.convolution", "live.fit"))
    ((_, _, steps, _),) = report.runs
    before, after = steps[1].before[0], steps[1].after[0]
    if before.free_bytes is not None and after.free_bytes is not None:
        assert 50 * MIB < before.free_bytes - after.free_bytes < 3000 * MIB
