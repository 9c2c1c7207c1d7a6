"""The probe's child as a real process that fails in every way, over a stand-in TensorFlow."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gpuconf.commands.doctor.live import LiveReport, measure
from gpuconf.commands.doctor.live.probing import run_child
from gpuconf.errors import BackendError
from gpuconf.machine.cards import read_inventory
from tests.commands.doctor.live_standin import TENSORFLOW
from tests.commands.doctor.shell_fixes import can_be_pasted
from tests.machine.cards import standin
from tests.programs.card_clients import wait_until
from tests.programs.processes import Nvml, Start, clean_environment, is_alive, write_package

pytestmark = pytest.mark.slow  # waits for programs

Probe = Callable[..., LiveReport]


@pytest.fixture
def environ(nvml: Nvml, tmp_path: Path) -> dict[str, str]:
    """A machine with one GPU, the stand-in TensorFlow, and gpuconf's hooks off, for its sake."""
    write_package(tmp_path, {"standin/tensorflow/__init__.py": TENSORFLOW})
    path = str(tmp_path / "standin")
    more = {**nvml("desktop"), "PYTHONPATH": path, "GPUCONF_DISABLE": "1"}
    return clean_environment(tmp_path, more)


@pytest.fixture
def probe(environ: dict[str, str]) -> Probe:
    """Probe with more variables; under a profile gpuconf's hooks are on."""

    def run(timeout_s: float = 60, profile: str | None = None, **more: str) -> LiveReport:
        variables = {**environ, **more}
        if profile is not None:
            del variables["GPUCONF_DISABLE"]
        return measure(profile, timeout_s=timeout_s, progress=lambda _: None, environ=variables)

    return run


def failures(report: LiveReport) -> list[tuple[str, str]]:
    """The ids and summaries of what failed."""
    return [(each.id, each.summary) for each in report.findings if each.status == "fail"]


@pytest.mark.parametrize(
    ("step", "act", "words"),
    [
        ("start", "SIGKILL", "killed by SIGKILL in the start step"),
        ("convolution", "exit", "exit code 3"),
        ("fit", "SIGBUS", "killed by SIGBUS in the fit step"),
    ],
)
def test_a_child_that_dies(step: str, act: str, words: str, probe: Probe) -> None:
    """By a signal, or by a library that calls exit(): it and the step are known."""
    ((check, summary),) = failures(probe(STANDIN_STEP=step, STANDIN_ACT=act))
    assert check == f"live.{step}"
    assert words in summary


def test_a_hang_ends_in_time_with_all_it_started(environ: dict[str, str]) -> None:
    """The child, and its own child that has left the group, are gone after the limit."""
    hanging = {**environ, "STANDIN_STEP": "matmul", "STANDIN_ACT": "hang"}
    run = run_child(profile=None, only=None, timeout_s=3, progress=lambda _: None, environ=hanging)
    assert (run.code, run.timeout_s) == (None, 3)
    assert run.record.unfinished is not None
    assert run.record.unfinished.step == "matmul"
    left = re.search(r"left (\d+)", run.output)
    assert left is not None
    assert not is_alive(int(left[1]))


def test_the_child_ends_with_a_killed_doctor(
    environ: dict[str, str], tmp_path: Path, start: Start
) -> None:
    """SIGKILL to the process that probes ends the child, which nobody else would."""
    program = (
        "from gpuconf.commands.doctor.live import measure\n"
        "measure(None, timeout_s=600, progress=lambda step: print(step, flush=True))\n"
    )
    hanging = {**environ, "STANDIN_STEP": "context", "STANDIN_ACT": "hang", "MARK": str(tmp_path)}
    doctor = start([sys.executable, "-c", program], hanging)
    while "context" not in doctor.read_line():
        pass
    doctor.kill()
    doctor.wait()
    try:
        wait_until(lambda: not any("live.program" in each for each in _commands(tmp_path).values()))
    finally:
        for _ in range(3):  # its sleeper, which outlives a doctor that is killed
            for pid in _commands(tmp_path):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)  # one that is just being started has no environment to be found by


def test_wrong_numbers_are_a_failure(probe: Probe) -> None:
    """A matmul that is off, and a loss that is not a number; but rounding is allowed for."""
    found = probe(STANDIN_OFF="1000")
    ((check, summary),) = failures(found)
    assert check == "live.matmul"
    assert "wrong numbers" in summary
    assert any(" numbers are wrong" in line for each in found.findings for line in each.detail)
    ((check, summary),) = failures(probe(STANDIN_LOSS="nan"))
    assert check == "live.fit"
    assert "wrong numbers" in summary
    assert failures(probe(STANDIN_OFF="0.1")) == []


def test_a_long_log_is_cut_in_the_middle(probe: Probe) -> None:
    """A chatty TensorFlow takes no more memory than that, and its end is kept."""
    report = probe(STANDIN_LINES="100000", STANDIN_STEP="fit", STANDIN_ACT="a new kind of error")
    ((_, summary),) = failures(report)
    assert "a new kind of error" in summary


def test_no_tensorflow(environ: dict[str, str], probe: Probe, tmp_path: Path) -> None:
    """A Python without TensorFlow is skipped calmly: the doctor's other checks tell of it."""
    hide = (
        "import importlib.util as u\nreal = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'tensorflow' else real(name, *rest)\n"
    )
    write_package(tmp_path, {"hidden/sitecustomize.py": hide})
    path = f"{tmp_path / 'hidden'}{os.pathsep}{environ['PYTHONPATH']}"
    (finding,) = probe(PYTHONPATH=path).findings
    assert finding.status == "skip"
    assert "TensorFlow is not installed" in finding.summary


def test_tensorflow_before_us(probe: Probe, tmp_path: Path) -> None:
    """A sitecustomize that makes TensorFlow's devices: the remedy finds it, not a line on top."""
    context = "class Made:\n    _context_handle = 1\n\n\ncontext = Made\n"
    files = {"tensorflow/python/eager/context.py": context, "sitecustomize.py": "import tensorflow"}
    for folder in ("", "python/", "python/eager/"):
        files[f"tensorflow/{folder}__init__.py"] = ""
    # As the real one does: what bears the name and has no context is not a TensorFlow.
    files["tensorflow/__init__.py"] = "from tensorflow.python.eager import context\n"
    write_package(tmp_path / "early", files)
    first = probe(profile="shared-desktop", PYTHONPATH=str(tmp_path / "early")).findings[0]
    assert (first.id, first.status) == ("live.start", "fail")
    assert "too late: TensorFlow initialized its GPUs" in first.summary
    assert "importtime" in (first.fix or "")
    assert can_be_pasted(first.fix or "")
    assert "hint: " not in "".join(first.detail), "the first line is ours already"


def test_a_bad_profile_is_told_with_its_hint(probe: Probe) -> None:
    """The profile's own message, hint and list; TensorFlow is not even started."""
    findings = probe(profile="shared-desktpo").findings
    failed = next(each for each in findings if each.status == "fail")
    assert failed.id == "live.start"
    assert "shared-desktpo" in failed.summary
    assert "did you mean shared-desktop?" in failed.detail[-1]
    assert failed.fix == "gpuconf profiles list"


@pytest.mark.parametrize(("policy", "status"), [("{wait: 10min}", "fail"), ("cpu", "warn")])
def test_a_shortage(policy: str, status: str, nvml: Nvml, probe: Probe, tmp_path: Path) -> None:
    """The probe does not wait as a program would; one sent to the processor is a warning."""
    full = nvml(standin.Machine((standin.Card(standin.uuid(0), used=11 * 1024**3),)))
    rules = f"memory: {{keep_free: 1GiB, at_least: 1GiB, on_shortage: {policy}}}\n"
    (tmp_path / "own.yaml").write_text(rules, encoding="utf-8")
    first = probe(profile=str(tmp_path / "own.yaml"), **full).findings[0]
    assert (first.id, first.status) == ("live.start", status)
    assert first.fix
    assert "needed" in " ".join([first.summary, *first.detail])


def test_nothing_to_probe(probe: Probe, tmp_path: Path) -> None:
    """cpu-only leaves no GPU, and a machine may have none: one calm line."""
    hidden = {"CUDA_VISIBLE_DEVICES": "-1"} if read_inventory().gpus else {}
    environ = clean_environment(tmp_path, hidden)
    without = measure(None, timeout_s=60, progress=lambda _: None, environ=environ)
    for report in (probe(profile="cpu-only"), without):
        assert [(each.id, each.status) for each in report.findings] == [("live.start", "skip")]


def test_a_python_that_is_not_there(environ: dict[str, str]) -> None:
    """What cannot be started is an error with a hint, not a finding."""
    with pytest.raises(BackendError) as caught:
        measure(None, timeout_s=5, progress=lambda _: None, environ=environ, python="/no/python")
    assert caught.value.hint == "/no/python --version"


def _commands(mark: Path) -> dict[int, str]:
    """The command lines of the living processes with MARK in their environment, by pid."""
    found = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if f"MARK={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found
