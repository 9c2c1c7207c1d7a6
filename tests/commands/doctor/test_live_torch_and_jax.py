"""The probe with real PyTorch and JAX on the simulated GPU, which has none of their kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.examination import frameworks_to_probe
from gpuconf.commands.doctor.facts import Packages, TensorFlowBuild, TorchBuild
from gpuconf.commands.doctor.live import JAX, LIVE_CHECKS, TENSORFLOW, TORCH, LiveReport, measure
from gpuconf.simcard import simulated_card, support_for_command
from tests.commands.doctor.doctor_machines import installed
from tests.commands.doctor.live_records import by_id
from tests.frameworks.installed import folder_of
from tests.programs.card_clients import STORY
from tests.programs.processes import clean_environment

_CARD = STORY._replace(context_bytes=450 * MIB)
_TENSORFLOW = installed(("tensorflow", "2.21.0"))
_JAX = installed(("jax-cuda12-plugin", "0.10.2"))


def probe(folder: Path, **variables: str) -> LiveReport:
    """Probe PyTorch, then JAX, under shared-desktop."""
    environ = clean_environment(folder, variables)
    environ["PYTHONPATH"] = ":".join(str(folder_of(name)) for name in ("torch", "jax"))
    with simulated_card(_CARD) as card:
        wheels = support_for_command([sys.executable], environ=environ)
        environ = card.environment(environ, wheels=wheels)
        report = measure(
            "shared-desktop",
            frameworks=(TORCH, JAX),
            timeout_s=120,
            progress=lambda _: None,
            environ=environ,
        )
        assert card.processes() == ()
    return report


@pytest.mark.slow
def test_memory_is_taken_and_the_limit_holds(tmp_path: Path) -> None:
    """All is ok but the matmul, which is not tried; contexts and arrays are measured.

    PyTorch is asked to allocate more than its limit, and refuses.
    """
    report = probe(tmp_path)
    found = by_id(report)
    assert set(found) == {name for name in LIVE_CHECKS if name.startswith(("live.t", "live.j"))}
    for name, finding in found.items():
        assert finding.status == ("skip" if name.endswith("matmul") else "ok"), finding
    assert "a simulated GPU has no kernels of PyTorch" in found["live.torch.matmul"].summary
    for name in ("torch", "jax"):
        assert "450 MiB next to its limit of 7884 MiB" in found[f"live.{name}.headroom"].summary
    assert [run.framework for run in report.runs] == ["torch", "jax"]
    for _, _, steps, _ in report.runs:
        assert [step.step for step in steps] == ["start", "context", "memory"]
        assert steps[1].after[0].own_bytes == 450 * MIB
        assert steps[2].after[0].peak_bytes == 16 * MIB


@pytest.mark.slow
@pytest.mark.nightly  # what a limit that does not hold looks like is below
def test_what_voids_a_limit_and_what_keeps_off_the_card(tmp_path: Path) -> None:
    """A torch that does not cache takes more than its limit; a JAX with two fractions has no GPU,
    and gpuconf says why, where JAX continues with the processor."""
    report = probe(
        tmp_path,
        PYTORCH_NO_CUDA_MEMORY_CACHING="1",
        XLA_CLIENT_MEM_FRACTION=".3",
        XLA_PYTHON_CLIENT_MEM_FRACTION=".3",
    )
    voided = [each for each in report.findings if each.id == "live.torch.memory"]
    assert [each.status for each in voided] == ["fail"]
    assert (
        "the limit does not apply: a single allocation of 7886 MiB succeeded" in voided[0].summary
    )
    (start,) = [each for each in report.findings if each.id == "live.jax.start"]
    assert start.status == "fail"
    assert "JAX cannot use the GPU: XLA_CLIENT_MEM_FRACTION is specified" in start.summary


@pytest.mark.parametrize(
    ("packages", "ids", "expected"),
    [
        (Packages(), None, [TENSORFLOW]),
        (Packages(installed=_TENSORFLOW), None, [TENSORFLOW]),
        (Packages(installed=_TENSORFLOW | _JAX, torch=TorchBuild("12.8")), None,
         [TENSORFLOW, TORCH, JAX]),
        (Packages(installed=_TENSORFLOW, tensorflow=TensorFlowBuild(), torch=TorchBuild("12.8")),
         None, [TORCH]),
        (Packages(installed=_TENSORFLOW, torch=TorchBuild()), None, [TENSORFLOW]),
        (Packages(installed=_TENSORFLOW | _JAX), {"live.jax.memory"}, [JAX]),
        (Packages(installed=_TENSORFLOW | _JAX), {"live.matmul", "driver.cuda"}, [TENSORFLOW]),
        (Packages(installed=_TENSORFLOW), {"live.torch.start"}, [TORCH]),
    ],
)  # fmt: skip
def test_which_frameworks_are_probed(
    packages: Packages, ids: set[str] | None, expected: list[object]
) -> None:
    """Those with CUDA whose checks were requested; one that was requested by name in any case."""
    assert frameworks_to_probe(packages, None if ids is None else frozenset(ids)) == expected
