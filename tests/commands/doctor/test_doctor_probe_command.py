"""``gpuconf doctor --probe`` through the command line: its figures, and what it need not try."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB
from tests.commands.cli.commands import Job, run_jobs
from tests.commands.doctor.doctor_trees import FULL_CARD
from tests.commands.doctor.live_records import TENSORFLOWS
from tests.commands.doctor.live_standin import TENSORFLOW
from tests.programs.processes import Nvml, write_package

pytestmark = pytest.mark.slow  # waits for programs

PROBE = ["doctor", "--json", "--probe"]


@pytest.fixture
def tensorflow(tmp_path: Path) -> Mapping[str, str]:
    """A stand-in TensorFlow for the child, and gpuconf's hooks off, for its sake."""
    write_package(tmp_path, {"standin/tensorflow/__init__.py": TENSORFLOW})
    return {"PYTHONPATH": str(tmp_path / "standin"), "GPUCONF_DISABLE": "1"}


def test_what_was_measured_is_in_the_document(
    tensorflow: Mapping[str, str], nvml: Nvml, tmp_path: Path
) -> None:
    """Seconds and memory of every step, the GPU by its UUID; only where it was requested."""
    jobs = [Job([*PROBE, "live"], tensorflow), Job(["doctor", "--json", "live.fit", "--probe"],
            {**tensorflow, "STANDIN_STEP": "fit", "STANDIN_ACT": "SIGSEGV"}),
            Job(["doctor", "--json", "host"])]  # fmt: skip
    whole, died, without = (
        done.document for done in run_jobs(tmp_path, *jobs, environ=nvml("desktop"))
    )
    (run,) = whole["probe"]["runs"]
    assert [step["step"] for step in run["steps"]] == [
        "start", "context", "matmul", "convolution", "fit"
    ]  # fmt: skip
    assert run["cards"][0]["uuid"] == whole["gpus"][0]["uuid"]
    assert run["steps"][2]["after"][0]["used_bytes"] == 3 * GIB
    assert run["steps"][2]["after"][0]["peak_bytes"] == 2
    assert died["probe"]["runs"][0]["steps"][-1]["seconds"] is None
    assert [(each["id"], each["status"]) for each in died["findings"]] == [("live.fit", "fail")]
    assert without["probe"] is None
    assert {each["status"] for each in whole["findings"]} <= {"ok", "skip"}
    assert "GPUCONF_DISABLE=1" in whole["findings"][0]["detail"][0]


def test_a_refusal_is_told_once(tensorflow: Mapping[str, str], nvml: Nvml, tmp_path: Path) -> None:
    """Where the plan is refused no child is started; requested alone, the probe tells it."""
    jobs = [
        Job([*PROBE, "profile", "live"]),
        Job([*PROBE, "live"]),
        Job([*PROBE, "profile", "live"], {"GPUCONF_PROFILE": "nosuch"}),
        Job([*PROBE, "profile", "live"], tensorflow),
    ]
    done = run_jobs(tmp_path, *jobs, environ=nvml(FULL_CARD))
    both, alone, unknown, off = (each.document for each in done)
    assert done[0].err == "… no probe: profile.plan must pass first\n"
    found = {each["id"]: (each["status"], each["summary"]) for each in both["findings"]}
    assert found["profile.plan"][0] == "fail"
    assert found["live.start"] == ("skip", "not tried: profile.plan must pass first")
    assert both["probe"] == {"runs": []}
    assert alone["counts"]["fail"] == 1
    assert alone["findings"][0]["id"] == "live.start"
    assert "not enough GPU memory" in alone["findings"][0]["summary"]
    assert unknown["findings"][-1]["summary"] == "not tried: profile.choice must pass first"
    assert {each["id"] for each in off["findings"]} > TENSORFLOWS
