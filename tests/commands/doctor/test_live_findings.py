"""Runs of the probe's child -> findings, without a child."""

from __future__ import annotations

import signal

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.live import LIVE_CHECKS
from gpuconf.commands.doctor.live.findings import findings_of
from gpuconf.commands.doctor.live.frameworks import JAX, TORCH
from gpuconf.commands.doctor.live.outcome import places_to_try_alone
from gpuconf.commands.doctor.live.record import ChildRun, LiveRecord, Skip
from tests.commands.doctor.live_records import (
    STEPS,
    card,
    failed,
    passed,
    record,
    run,
    up_to,
    whole,
)
from tests.commands.doctor.shell_fixes import can_be_pasted

_FULL = "cudaSetDevice() on GPU:1 failed. Status: out of memory"
_TWO = (card(0), card(1))
_IDS = [f"live.{name}" for name in STEPS]
OF_TORCH = passed("start"), passed("context", 0), passed("memory", 0)


def by_id(*runs: ChildRun) -> dict[str, list[Finding]]:
    """The findings by their id; each is one that `LIVE_CHECKS` knows, and can be acted on."""
    found: dict[str, list[Finding]] = {}
    for finding in findings_of(runs):
        assert finding.id in LIVE_CHECKS
        assert bool(finding.fix) == (finding.status in ("warn", "fail")), finding
        assert finding.fix is None or can_be_pasted(finding.fix), finding.fix
        assert "\n" not in finding.summary
        assert not finding.summary.endswith(".")
        found.setdefault(finding.id, []).append(finding)
    return found


def statuses(*runs: ChildRun) -> dict[str, list[str]]:
    """The statuses by id."""
    return {name: [each.status for each in found] for name, found in by_id(*runs).items()}


@pytest.mark.parametrize("name", STEPS[1:])
def test_a_step_that_fails(name: str) -> None:
    """Its check fails, those before are ok, those after were not tried."""
    made = record(*up_to(name, 0), failed(name, 0))
    found = statuses(run(made))
    at = _IDS.index(f"live.{name}")
    assert [found[each] for each in _IDS] == [["ok"]] * at + [["fail"]] + [["skip"]] * (4 - at)
    assert found["live.headroom"] == ["skip"]


@pytest.mark.parametrize("name", STEPS)
def test_death_by_any_signal(name: str) -> None:
    """The signal and the step in which it came are told."""
    begun = passed(name, *(() if name == "start" else (0,)))._replace(seconds=None)
    made = record(*up_to(name, 0), begun, over=False)
    names = {9: "SIGKILL", 11: "SIGSEGV", 6: "SIGABRT", 40: "signal 40"}
    for number, word in names.items():
        (finding,) = by_id(run(made, code=-number))[f"live.{name}"]
        assert finding.status == "fail"
        assert word in finding.summary
        assert f"in the {name} step" in finding.summary
        assert ("host memory" in " ".join(finding.detail)) == (number == signal.SIGKILL)


def test_a_crash_shows_what_was_said_last() -> None:
    """Of the log the lines that tell are shown, not the many that do not."""
    log = "I0000 fine\nF0000 11:11 device.cc] Check failed: stream != nullptr\nI0000 going on\n"
    made = record(*up_to("fit", 0), passed("fit", 0)._replace(seconds=None), over=False)
    (finding,) = by_id(run(made, log, -signal.SIGABRT))["live.fit"]
    assert any("Check failed" in line for line in finding.detail)
    assert not any("fine" in line for line in finding.detail)


@pytest.mark.parametrize(
    "words",
    [
        ["terminate called after throwing an instance of 'cuda::Error'", "what():  no stream"],
        ["free(): invalid pointer"],
        ["malloc_consolidate(): invalid chunk size"],
        ["double free or corruption (!prev)"],
    ],
)
def test_a_crash_below_python_shows_its_own_words(words: list[str]) -> None:
    """Before what Python says of it, which is the same for all, and without Python's stack."""
    python = ["Fatal Python error: Aborted", "", "Thread 0x1:", '  File "steps.py", line 3 in fit']
    log = "\n".join(["I0000 fine", *words, *python])
    made = record(*up_to("fit", 0), passed("fit", 0)._replace(seconds=None), over=False)
    (finding,) = by_id(run(made, log, -signal.SIGABRT))["live.fit"]
    assert list(finding.detail[1:]) == [*words, "Fatal Python error: Aborted"]


def test_death_between_steps_and_after_the_last() -> None:
    """Before the next step began it is that one's; after the last the last one's."""
    between = record(*up_to("matmul", 0), over=False)
    assert statuses(run(between, code=-11))["live.matmul"] == ["fail"]
    (_, after) = by_id(run(record(*whole(0)), code=-11))["live.fit"]
    assert after.status == "fail"
    assert "after its last step" in after.summary


def test_death_before_the_first_word() -> None:
    """A child that could not even start is a failed start."""
    found = by_id(run(LiveRecord(), "ModuleNotFoundError: No module named 'gpuconf'", code=1))
    assert found["live.start"][0].status == "fail"
    assert "exit code 1" in found["live.start"][0].summary
    assert "ModuleNotFoundError" in found["live.start"][0].detail[0]


def test_a_hang() -> None:
    """The step and the seconds; a process that not even SIGKILL ends hangs in the driver."""
    begun = record(*up_to("context", 0), passed("context", 0)._replace(seconds=None), over=False)
    (hung,) = by_id(run(begun, code=None))["live.context"]
    assert "was still in the context step after 120 s" in hung.summary
    assert "gpuconf doctor --probe --timeout 240" in (hung.fix or "")
    (hurried,) = by_id(run(begun, code=None)._replace(timeout_s=1))["live.context"]
    assert "--timeout 120 " in (hurried.fix or "")
    (stuck,) = by_id(run(begun, code=None)._replace(is_stuck=True))["live.context"]
    assert "driver" in stuck.detail[0]


def test_cards_that_work_alone_only() -> None:
    """What fails together and works alone fails, and says so, once."""
    together = run(record(passed("start"), failed("context", 0, 1), cards=_TWO))
    alone = [run(record(*whole(place), cards=_TWO), only=place) for place in (0, 1)]
    ok, fail = by_id(together, *alone)["live.context"]
    assert ok.status == "ok"
    assert fail.status == "fail"
    assert "each GPU works alone" in fail.summary


def test_only_cards_that_did_not_come_through_are_tried_again() -> None:
    """The first GPU is through, the second's convolution killed the child."""
    steps = [*whole(0, 1)[:6], passed("convolution", 1)._replace(seconds=None)]
    died = run(record(*steps, cards=_TWO, over=False), code=-signal.SIGSEGV)
    assert places_to_try_alone(died) == (1,)
    found = by_id(died)
    assert [each.status for each in found["live.convolution"]] == ["ok", "fail"]
    assert [each.status for each in found["live.fit"]] == ["ok"]


def test_no_second_try() -> None:
    """Not for one GPU, not where all went well, not where TensorFlow does not even start."""
    assert places_to_try_alone(run(record(failed("context", 0)))) == ()
    assert places_to_try_alone(run(record(*whole(0, 1), cards=_TWO))) == ()
    assert places_to_try_alone(run(record(failed("start"), cards=_TWO))) == ()


# What is the one thing that is told: the run, its status and words of it.
ALONE: dict[str, tuple[ChildRun, str, str]] = {
    "no GPU, or a profile that uses none": (
        run(record(passed("start"), skip=Skip("no GPU here"))), "skip", "no GPU here"),
    "GPUs given up for lack of memory": (
        run(LiveRecord(skip=Skip("no GPU will do", ("225 MiB free",), is_calm=False))), "warn",
        "225 MiB free"),
    "a CUDA driver, and a GPU of which neither NVML nor TensorFlow knows": (
        run(record(failed("start", error="TensorFlow lists no GPU"), cards=(), listed=0)), "skip",
        "no GPU"),
    "Keras that computes elsewhere, from the start": (
        run(record(failed("start"), listed=0, keras_backend="jax")), "skip", "jax"),
    "Keras that computes elsewhere, at the context": (
        run(record(passed("start"), failed("context"), listed=0, keras_backend="jax")), "skip",
        "jax"),
}  # fmt: skip
# Of what is told, one finding: the run, its id, its status, words of it.
TOLD: dict[str, tuple[ChildRun, str, str, str]] = {
    "a build for the CPU, before any library is missed": (
        run(record(failed("start"), listed=0, is_cuda_build="False")), "live.start", "fail",
        "without CUDA"),
    "fewer GPUs than the profile has": (
        run(record(*whole(0), cards=_TWO, listed=1)), "live.start", "warn", "1"),
    "a setting that is not met": (
        run(record(*whole(0), notes=("limit of GPU:0: requested 1 MiB, got 2 MiB: because",))),
        "live.start", "warn", "requested 1 MiB"),
    "a limit and a context that are nearly all that was free": (
        run(record(*whole(0), cards=(card(limit=9219 * MIB),))), "live.headroom", "warn",
        "450 MiB next to its limit of 9219 MiB, which leaves 0 MiB"),
    "their fix": (
        run(record(*whole(0), cards=(card(limit=9219 * MIB),))), "live.headroom", "warn",
        "context: 2GiB"),
    "a limit that is held at once, without growth": (
        run(record(*whole(0, own=8500 * MIB), cards=(card(growth=False),))), "live.headroom", "ok",
        "616 MiB next to its limit of 7884 MiB, and 819 MiB are left"),
    "no limit to compare with": (
        run(record(*whole(0), cards=(card(limit=None),))), "live.headroom", "skip", ""),
    "a step that a child leaves out": (
        run(record(*OF_TORCH, framework=TORCH, untried="matmul", why_untried="it has no kernels")),
        "live.torch.matmul", "skip", "it has no kernels"),
    "which leaves the others as they are": (
        run(record(*OF_TORCH, framework=TORCH, untried="matmul", why_untried="it has no kernels")),
        "live.torch.headroom", "ok", ""),
    "a limit that does not hold": (
        run(record(*OF_TORCH[:2], failed("memory", 0, kind="LimitNotHeldError", error="9 MiB"),
                   framework=TORCH)), "live.torch.memory", "fail",
        "the limit does not apply: 9 MiB"),
    "JAX that fell back to the processor, by its log's last word": (
        run(record(failed("start", kind="LookupError"), listed=0, framework=JAX),
            "Traceback (most recent call last):\n  …\nRuntimeError: cuFFT is not installed\n"),
        "live.jax.start", "fail", "JAX lists too few GPUs: RuntimeError: cuFFT is not installed"),
    "the child by hand, which shows all of it": (
        run(record(failed("start", kind="LookupError"), listed=0, framework=JAX)),
        "live.jax.start", "fail", "-m gpuconf.commands.doctor.live.program --framework jax"),
    "a limit that differs": (
        run(record(passed("start"), *(passed(name, 0) for name in TORCH.steps[1:]),
                   framework=TORCH, notes=("GPU 0: of 4, 8",))), "live.torch.start", "warn",
        "PyTorch 2.21.0 did not apply all of the profile: GPU 0: of 4, 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ALONE, *TOLD])
def test_what_a_run_comes_to(name: str) -> None:
    """The finding of the table; where nothing is to be probed it is the only one."""
    made, check, status, words = TOLD.get(name) or (
        ALONE[name][0], "live.start", *ALONE[name][1:],
    )  # fmt: skip
    found = by_id(made)
    (finding,) = found[check]
    assert finding.status == status
    assert words in "\n".join([finding.summary, *finding.detail, finding.fix or ""])
    assert (list(found) == [check]) == (name in ALONE)
