"""The probe with real PyTorch and JAX on the simulated GPU, which has none of their kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.examination import frameworks_to_probe
from gpuconf.commands.doctor.facts import Packages, TensorFlowBuild, TorchBuild
from gpuconf.commands.doctor.live import JAX, LIVE_CHECKS, TENSORFLOW, TORCH, LiveReport, measure
from gpuconf.commands.doctor.live.findings import findings_of
from gpuconf.simcard import simulated_card, support_for_command
from tests.commands.doctor.doctor_machines import installed
from tests.commands.doctor.live_records import by_id, card, failed, passed, record, run
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
    assert "the limit does not apply: 7886 MiB were given at once" in voided[0].summary
    (start,) = [each for each in report.findings if each.id == "live.jax.start"]
    assert start.status == "fail"
    assert "JAX cannot use the GPU: XLA_CLIENT_MEM_FRACTION is specified" in start.summary


def test_the_step_that_a_child_leaves_out_is_not_missed() -> None:
    """It is skipped, with the reason; without one it is a step that did not come."""
    facts = {"untried": "matmul", "why_untried": "it has no kernels"}
    made = record(passed("start"), passed("context", 0), passed("memory", 0))
    made = made._replace(framework=TORCH, facts=(*made.facts, *facts.items()))
    found = {each.id: each for each in findings_of([run(made)])}
    assert found["live.torch.matmul"].status == "skip"
    assert "it has no kernels" in found["live.torch.matmul"].summary
    assert found["live.torch.headroom"].status == "ok"


def test_a_limit_that_does_not_hold() -> None:
    """The step fails, with what was taken."""
    steps = passed("context", 0), failed("memory", 0, kind="LimitNotHeldError", error="9 MiB")
    made = record(passed("start"), *steps)._replace(framework=TORCH)
    found = {each.id: each for each in findings_of([run(made)])}
    assert found["live.torch.memory"].status == "fail"
    assert "the limit does not apply: 9 MiB" in found["live.torch.memory"].summary


def test_a_jax_that_fell_back_to_the_processor() -> None:
    """Its log's last word is the reason, and the child by hand shows all of it."""
    log = "Traceback (most recent call last):\n  …\nRuntimeError: Unable to load cuFFT.\n"
    made = record(failed("start", kind="LookupError"), listed=0)._replace(framework=JAX)
    start = findings_of([run(made, log)])[0]
    assert (start.id, start.status) == ("live.jax.start", "fail")
    assert "JAX lists too few GPUs: RuntimeError: Unable to load cuFFT." in start.summary
    assert (start.fix or "").endswith("-m gpuconf.commands.doctor.live.program --framework jax")


def test_a_limit_that_differs_is_a_warning() -> None:
    """The child's note is in the finding of the start."""
    steps = [passed("start"), *(passed(name, 0) for name in TORCH.steps[1:])]
    made = record(*steps, cards=(card(),))._replace(framework=TORCH, notes=("GPU 0: of 4, 8",))
    start = findings_of([run(made)])[0]
    assert (start.id, start.status) == ("live.torch.start", "warn")
    assert "PyTorch 2.21.0 did not apply all of the profile: GPU 0: of 4, 8" in start.summary


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
