"""`explain`, `doctor --probe` and `rehearse` find one cause for one error text."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from gpuconf.commands.doctor.live.failed_step import FailedStep
from gpuconf.commands.doctor.live.reasons import reason_of
from gpuconf.commands.doctor.live.record import LiveRecord
from gpuconf.commands.doctor.probe_results import StepError
from gpuconf.commands.explain import explain
from gpuconf.support.failures.failure import failure_of

LADDER = "failed to allocate 9.90GiB from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"


class Case(NamedTuple):
    """An exception's class and text, the log of its process, and the cause."""

    cause: str
    message: str
    kind: str = "InternalError"
    log: str = ""


CASES = [
    Case(cause, **row)
    for cause, rows in yaml.safe_load(
        Path(__file__).with_name("one_reader.yaml").read_text(encoding="utf-8")
    ).items()
    for row in rows
]


def by_explain(case: Case) -> str:
    """The cause in the whole log."""
    return explain(f"{case.log}\n{case.kind}: {case.message}").cause


def by_doctor(case: Case) -> str:
    """The cause of a step that raised this."""
    error = StepError(case.kind, case.message)
    return reason_of(FailedStep("fit", error, LiveRecord(), case.log)).cause


def by_rehearse(case: Case) -> str:
    """The cause of a program that ended so."""
    return failure_of({"type": case.kind, "message": case.message}, case.log).cause


def test_one_cause() -> None:
    """All three name the cause, and it is the same."""
    for case in CASES:
        found = (by_explain(case), by_doctor(case), by_rehearse(case))
        assert found == (case.cause,) * 3, case


def test_who_knows_the_exception_knows_more() -> None:
    """A log alone may have retries that look like the root; these two saw the exception."""
    case = Case("xla-toolchain", "libdevice not found at ./libdevice.10.bc", log=LADDER)
    assert by_explain(case) == "oom-device-startup"
    assert (by_doctor(case), by_rehearse(case)) == ("xla-toolchain",) * 2
    assert explain(f"{case.kind}: {case.message}").cause == "xla-toolchain"


def test_who_knows_the_program_knows_more() -> None:
    """The doctor's child does nothing of its own; a script may survive what its log has."""
    case = Case(
        "cublas-alloc", "something else", log="failed to create cublas handle: cublas error"
    )
    assert (by_explain(case), by_doctor(case)) == ("cublas-alloc",) * 2
    assert by_rehearse(case) == "not-a-gpu-problem"


def test_who_knows_the_card_knows_more() -> None:
    """A simulated GPU has no cuDNN: its failure is no verdict there; a lack of memory is."""
    kinds = {
        text: failure_of({"type": "InternalError", "message": text}, "").kind
        for text in ("DNN library initialization failed.", "CUDNN_STATUS_ALLOC_FAILED")
    }
    assert list(kinds.values()) == ["kernel", "gpu_memory"]


@pytest.mark.parametrize("short", ["CUDA", "(0)", "fit", "memory"])
def test_the_headline_is_the_line_of_the_cause(short: str) -> None:
    """A line above it that the line of the cause happens to contain does not stand for it."""
    line = "CUDA out of memory in fit (0). Tried to allocate 20.00 MiB."
    for whole in (line, f"{line} {'x' * 1500}"):
        failure = failure_of({"type": "RuntimeError", "message": f"{short}\n{whole}"}, "")
        assert failure.message == f"RuntimeError: {whole}"


def test_an_error_without_a_message_is_its_class() -> None:
    """Python's MemoryError says nothing; nor does its line."""
    assert failure_of({"type": "MemoryError", "message": ""}, "").message == "MemoryError"
