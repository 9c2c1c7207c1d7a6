"""What gpuconf promises, each as a function of the stage it runs on: simulated GPU or real GPU.

A check returns rows: what, what was expected, what was seen, whether that is it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.commands.demo.runner import ScriptRun
from tests.acceptance.stage import PROGRAMS, Stage
from tests.programs import warm

PROFILES = ("shared-desktop", "dedicated", "half-card", "small-laptop", "notebook", "virtual-pair")


class Row(NamedTuple):
    """One promise and its outcome."""

    what: str
    expected: str
    seen: str
    is_good: bool


Check = Callable[[Stage], list[Row]]


def _brief(text: str, stage: Stage) -> str:
    """What a table can hold of ``text``, without the place of the programs' copies."""
    return text.replace(str(stage.folder), "…")[:140]


def without_us_the_second_dies(stage: Stage) -> list[Row]:
    """Without gpuconf the first process takes all that is left and the second fails."""
    free_before = stage.gpu().free_bytes or 0
    with stage.holding("hold_memory.py", MIB_NEEDED="256") as first:
        free_after = stage.gpu().free_bytes or 0
        second = stage.run("hold_memory.py", MIB_NEEDED="1536", EMPTY="1")
    taken = (free_before - free_after) // MIB
    return [
        Row("no limit: a first script that needs 256 MiB takes", "the GPU", f"{taken} MiB",
            first[0].code == 0 and free_after < 2048 * MIB),
        Row("no limit: a second script next to it", "fails", _brief(second.last_error, stage),
            second.code != 0 and second.result is None),
    ]  # fmt: skip


def without_us_ninety_percent_fails(stage: Stage) -> list[Row]:
    """A fraction of the total is more than what is free, and the driver says so."""
    total = stage.gpu().total_bytes or 0
    asked = int(total * 0.9) // 256 * 256
    with stage.crowded(free_share=9319 / 11264) as crowded:
        run = crowded.run("ninety_percent.py")
    first = run.refusals[0] if run.refusals else "no such line"
    # A real GPU's total is not CUDA's to the byte, so there only the line itself is expected.
    exact = stage.is_real or f"({asked} bytes)" in first
    return [
        Row("no limit: 90 % of a GPU with 17 % in use", f"{asked} bytes refused by the driver",
            _brief(first, stage), bool(run.refusals) and exact),
    ]  # fmt: skip


def with_us_both_run(stage: Stage) -> list[Row]:
    """The same two scripts, with one line more each, side by side."""
    with stage.holding("hold_memory.py", profile="notebook", EMPTY="1") as first:
        second = stage.run("ninety_percent.py", profile="notebook")
    return [
        Row("notebook: the first script", "runs", _end(first[0]), first[0].code == 0),
        Row("notebook: the one that requests 90 %, next to it", "runs, sum right",
            f"{_end(second)}, {second.result}",
            second.code == 0 and (second.result or {}).get("total") == 256 * 1024 * 256),
    ]  # fmt: skip


def nobody_is_over_committed(stage: Stage) -> list[Row]:
    """By default two run side by side; under dedicated the second stops at once and says why."""
    with stage.holding("hold_memory.py", profile="shared-desktop", MIB_NEEDED="256") as first:
        second = stage.run("hold_memory.py", profile="shared-desktop", MIB_NEEDED="256")
    with stage.holding("hold_memory.py", profile="dedicated", MIB_NEEDED="256") as alone:
        third = stage.run("hold_memory.py", profile="dedicated", MIB_NEEDED="256")
    refused = all(
        word in third.log for word in ("ShortageError", "used or reserved by pid", "MiB reserved")
    )
    return [
        Row("shared-desktop: the first script, which may take 70 %", "runs", _end(first[0]),
            first[0].code == 0),
        Row("shared-desktop: a second next to it", "runs", _end(second), second.code == 0),
        Row("dedicated: the first script", "runs", _end(alone[0]), alone[0].code == 0),
        Row("dedicated: a second next to it", "is refused, with what the first one has reserved",
            _brief(third.last_error, stage), third.code == 1 and refused),
    ]  # fmt: skip


def two_halves_run(stage: Stage) -> list[Row]:
    """Two processes under half-card, each holding nearly its whole limit."""
    gpus = stage.plan("half-card")["gpus"]
    need = str(gpus[0]["limit_bytes"] // MIB * 9 // 10)
    much = {"profile": "half-card", "MIB_NEEDED": need, "EMPTY": "1"}
    with stage.holding("hold_memory.py", **much) as first:
        second = stage.run("hold_memory.py", **much)
    return [
        Row(f"half-card: process {number} holds {need} MiB", "runs", _end(run), run.code == 0)
        for number, run in ((1, first[0]), (2, second))
    ]


def _end(run: ScriptRun) -> str:
    return "exit 0" if run.code == 0 else f"exit {run.code}: {run.last_error[:80]}"


def each_profile_is_obeyed(stage: Stage) -> list[Row]:
    """The limit in TensorFlow's "Created device" line is the plan's, within 1 MB."""
    rows = []
    for profile in PROFILES:
        run = stage.run("report.py", profile=profile, TF_CPP_MIN_LOG_LEVEL="0")
        result = run.result or {"planned": [], "planned_logical": [], "settings": []}
        planned = [
            size // MIB
            for limit, logical in zip(result["planned"], result["planned_logical"], strict=True)
            for size in (logical or [limit])
            if size is not None
        ]
        seen = list(run.created.values())
        good = len(planned) == len(seen) and all(
            abs(a - b) <= 1 for a, b in zip(planned, seen, strict=True)
        )
        differing = [s["name"] for s in result["settings"] if s["status"] != "ok"]
        if profile == "notebook":
            differing.remove("TF_CPP_MIN_LOG_LEVEL")  # ours, to see the "Created device" line
        rows.append(
            Row(f"profile {profile}: MB per device", str(planned),
                f"{seen}, not as asked: {differing or 'nothing'}",
                good and run.code == 0 and not differing)
        )  # fmt: skip
    return rows


def growth_stops_at_the_cap(stage: Stage) -> list[Row]:
    """Growth and a cap together: memory is taken step by step, up to the limit and no further."""
    profile = stage.folder / "cap.yaml"
    profile.write_text("extends: shared-desktop\nmemory: {memory_limit: 1GiB}\n", encoding="utf-8")
    run = stage.run("grow.py", profile=str(profile))
    result = run.result or {"steps": [0], "error": run.last_error, "tensors": 0}
    steps = result["steps"]
    slack = 64 if stage.is_real else 0  # a real context grows too, a little
    grows = len(set(steps)) >= 4 and steps == sorted(steps) and steps[0] < 512 + slack
    return [
        Row("1 GiB cap with growth: held after each 64 MiB", "grows in steps",
            str(sorted(set(steps))), grows),
        Row("1 GiB cap with growth: most that was held", "≤ 1024 MiB", f"{steps[-1]} MiB",
            steps[-1] <= 1024 + slack),
        Row("1 GiB cap with growth: the end", "ResourceExhaustedError", str(result["error"]),
            result["error"] == "ResourceExhaustedError" and 12 <= result["tensors"] <= 16),
    ]  # fmt: skip


def virtual_pair_is_two(stage: Stage) -> list[Row]:
    """virtual-pair turns one GPU into two logical devices."""
    run = stage.run("report.py", profile="virtual-pair")
    result = run.result or {"gpus": 0, "logical": 0}
    seen = f"{result['gpus']} GPU, {result['logical']} logical devices"
    return [
        Row("virtual-pair", "1 GPU, 2 logical devices", seen, seen == "1 GPU, 2 logical devices")
    ]


def keras_gets_a_session(stage: Stage) -> list[Row]:
    """keras-v1-session: the fraction is in the session Keras holds, and in the device's limit."""
    plan = stage.plan("keras-v1-session")["gpus"][0]
    # The profile sets TF_USE_LEGACY_KERAS, which TensorFlow reads when it is imported.
    fresh = {warm.VARIABLE: ""}
    run = stage.run("keras_session.py", profile="keras-v1-session", **fresh)
    result = run.result or {"fraction": None, "limits": [], "eager": None}
    limit = plan["limit_bytes"] // MIB
    real = int((plan["total_bytes"] or 0) * (result["fraction"] or 0)) // MIB
    return [
        Row("keras-v1-session: get_session()._config", f"a fraction that gives {limit} MiB",
            f"{result['fraction']} = {real} MiB", abs(real - limit) <= 1),
        Row("keras-v1-session: the device's limit", f"{limit} MiB", f"{result['limits']} MiB",
            len(result["limits"]) == 1 and abs(result["limits"][0] - limit) <= _cuda_slack(stage)),
    ]  # fmt: skip


def _cuda_slack(stage: Stage) -> int:
    """MiB by which CUDA's total may be below NVML's; a session's fraction is of CUDA's."""
    return 512 if stage.is_real else 1


def cpu_only_hides(stage: Stage) -> list[Row]:
    """gpus: none hides every GPU."""
    run = stage.run("report.py", profile="cpu-only")
    result = run.result or {"gpus": None, "device": run.last_error}
    seen = f"{result['gpus']} GPUs, tensor on {result['device']}"
    return [Row("cpu-only", "0 GPUs, tensor on CPU:0", seen, seen == "0 GPUs, tensor on CPU:0")]


def _ran_on_the_cpu(run: ScriptRun) -> bool:
    return run.code == 0 and (run.result or {}).get("device") == "CPU:0"


# What a program on a full GPU must come to, by the profile's on_shortage.
_POLICIES: dict[str, Callable[[ScriptRun], bool]] = {
    "fail": lambda run: run.code != 0 and "errors.ShortageError" in run.log,
    "cpu": _ran_on_the_cpu,
    "{wait: 3s}": lambda run: run.code != 0 and "gave up after 3s" in run.log,
}


def a_full_card_is_a_shortage(stage: Stage) -> list[Row]:
    """A GPU with 5 % left: on_shortage does each of its three things."""
    rows = []
    with stage.crowded(free_share=0.05) as full:
        for policy, good in _POLICIES.items():
            name = policy.strip("{").partition(":")[0]
            path = full.folder / f"{name}.yaml"
            path.write_text(
                f"extends: shared-desktop\nmemory: {{at_least: 2GiB, on_shortage: {policy}}}\n",
                encoding="utf-8",
            )
            run = full.run("report.py", profile=str(path))
            lines = [line for line in run.log.splitlines() if "not enough" in line]
            seen = lines[-1] if lines else _end(run)
            rows.append(
                Row(f"5 % left, on_shortage: {policy}", "does it", _brief(seen, full), good(run))
            )
    return rows


def other_ways_to_devices_are_guarded(stage: Stage) -> list[Row]:
    """Growth loops, own logical devices, is_gpu_available, a second configure: all within plan."""
    limit = stage.plan("shared-desktop")["gpus"][0]["limit_bytes"] // MIB
    run = stage.run("beginners.py", profile="shared-desktop")
    result = run.result or {}
    late = result.get("late") or ""
    return [
        Row("growth loop, own limit, is_gpu_available", f"runs, {limit} MiB",
            f"{_end(run)}, {result.get('limits')}",
            run.code == 0 and result.get("limits") == [f"{limit} MiB"]),
        Row("configure again after that", "TooLateError with file:line", _brief(late, stage),
            f"with_beginners.py:{_line('beginners.py', 'is_gpu_available') + 1}" in late),
        Row("the same configure again", "nothing happens", str(result.get("again")),
            result.get("again") is True),
    ]  # fmt: skip


def _line(program: str, text: str) -> int:
    """The line of ``program``, from 1, in which ``text`` stands first."""
    source = (PROGRAMS[0] / program).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(source, start=1) if text in line)


def too_late_is_said(stage: Stage) -> list[Row]:
    """Devices made before gpuconf came, by a tensor or without a trace, are refused with a line."""
    rows = []
    for maker, call in (("tensor", "tf.constant("), ("silent", "list_local_devices()")):
        line = _line("before_us.py", call)
        run = stage.run("before_us.py", MAKER=maker)
        error = (run.result or {}).get("error") or run.last_error
        good = error.startswith("TooLateError") and f"without_before_us.py:{line}" in error
        untouched = (run.result or {}).get("changed") == []
        expected = f"TooLateError naming line {line}, nothing set"
        seen = _brief(error.partition("GPUs ")[2], stage)
        rows.append(Row(f"too late ({maker})", expected, seen, good and untouched))
    return rows


ALL: tuple[Check, ...] = (
    without_us_the_second_dies,
    without_us_ninety_percent_fails,
    with_us_both_run,
    nobody_is_over_committed,
    two_halves_run,
    each_profile_is_obeyed,
    growth_stops_at_the_cap,
    virtual_pair_is_two,
    keras_gets_a_session,
    cpu_only_hides,
    a_full_card_is_a_shortage,
    other_ways_to_devices_are_guarded,
    too_late_is_said,
)
