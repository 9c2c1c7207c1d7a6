"""A step's exception and TensorFlow's log -> what it comes to, and what to paste."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.live.failed_step import FailedStep
from gpuconf.commands.doctor.live.findings import findings_of
from gpuconf.commands.doctor.live.reasons import reason_of, reason_of_unseen
from gpuconf.commands.doctor.probe_results import StepError
from tests.commands.doctor.live_records import card, failed, passed, record, run
from tests.commands.doctor.shell_fixes import can_be_pasted

CASES = yaml.safe_load(Path(__file__).with_name("live_reasons.yaml").read_text(encoding="utf-8"))
_OOM = "OOM when allocating tensor with shape[16,8,14,14] and type float on GPU:0"


def test_known_words() -> None:
    """Each is told by its cause, and has a fix that fits it."""
    for case in CASES["failed steps"]:
        made = record(*([passed("context", 0)] if case["step"] != "context" else []))
        error = StepError("InternalError", case["error"])
        reason = reason_of(FailedStep(case["step"], error, made, case.get("log", ""), card()))
        assert case["summary"] in reason.summary, case
        assert case["fix"] in reason.fix, case
        assert can_be_pasted(reason.fix), case
        assert not reason.summary.endswith("."), case


def test_a_gpu_that_tensorflow_does_not_list() -> None:
    """NVML has it, TensorFlow lists none: what was written tells why."""
    for case in CASES["no GPU listed"]:
        error = "TensorFlow lists no GPU"
        made = record(failed("start", error=error, kind="LookupError"), listed=0)
        finding = findings_of([run(made, case["log"])])[0]
        assert (finding.id, finding.status) == ("live.start", "fail"), case
        assert case["summary"] in finding.summary, case
        assert case["fix"] in (finding.fix or ""), case
        assert can_be_pasted(finding.fix or ""), case


@pytest.mark.parametrize("step", ["start", "fit"])
def test_an_import_that_fails(step: str) -> None:
    """TensorFlow in the first step, Keras in the last; the module is named."""
    error = StepError("ModuleNotFoundError", "No module named 'absl'")
    reason = reason_of(FailedStep(step, error, record()))
    assert ("Keras" if step == "fit" else "TensorFlow") in reason.summary
    assert "absl" in reason.summary
    assert "pip" in reason.fix


def test_a_small_limit_is_not_the_cards_fault() -> None:
    """Out of memory under a limit far below what was free: the profile allows too little."""
    error = StepError("ResourceExhaustedError", _OOM)
    reason = reason_of(FailedStep("fit", error, record(), card=card(limit=100 * MIB)))
    assert "the profile allows too little" in reason.summary
    assert reason.fix.startswith("gpuconf plan shared-desktop")


def test_the_telling_line_of_a_graphs_error() -> None:
    """TensorFlow's own first line says nothing."""
    error = StepError("ResourceExhaustedError", f"Graph execution error:\n\nDetected at\n{_OOM}")
    reason = reason_of(FailedStep("fit", error, record(), card=card()))
    assert f"ResourceExhaustedError: {_OOM}" in reason.detail


def test_what_tensorrt_misses_is_no_reason() -> None:
    """TensorFlow misses its libraries at many a start; next to others they are not named."""
    warned = "Could not load dynamic library 'lib{0}'; dlerror: lib{0}: cannot open shared object"
    log = "\n".join(warned.format(name) for name in ("cudnn.so.8", "nvinfer.so.7"))
    summary = reason_of_unseen(record(), log).summary
    assert summary.startswith("a CUDA library was not found (libcudnn.so.8)")
    alone = reason_of_unseen(record(), warned.format("nvinfer.so.7"))
    assert "does not say why" in alone.summary
