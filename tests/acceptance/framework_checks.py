"""What gpuconf promises of PyTorch and of JAX, alone, under Keras and next to TensorFlow.

A check is a function of the stage and the framework's name, and returns rows as those of checks.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from gpuconf.basics.units import MIB
from gpuconf.commands.demo.runner import ScriptRun
from tests.acceptance.checks import Row
from tests.acceptance.stage import Stage

Check = Callable[[Stage, str], list[Row]]

TITLES = {"torch": "PyTorch", "jax": "JAX"}
# What each raises where its own limit is reached; JAX's class had another name before 0.5.
_OUT_OF_MEMORY = {
    "torch": ("OutOfMemoryError: CUDA out of memory",),
    "jax": ("JaxRuntimeError: RESOURCE_EXHAUSTED", "XlaRuntimeError: RESOURCE_EXHAUSTED"),
}
_GRANULE = 2 * MIB  # XLA's
_PROGRAM = "take_memory.py"


def without_us_the_second_dies(stage: Stage, framework: str) -> list[Row]:
    """Keras, and next to it a second program, want more than the GPU has: the second fails."""
    free_mib = (stage.gpu().free_bytes or 0) // MIB
    # PyTorch takes what is requested; JAX three quarters of the GPU with its first array.
    needed = {"torch": str(free_mib * 55 // 100), "jax": "64"}[framework]
    much = str(free_mib * 55 // 100)
    with stage.holding(_PROGRAM, **_keras(framework), MIB_NEEDED=needed) as first:
        second = stage.run(_PROGRAM, FRAMEWORK=framework, MIB_NEEDED=much)
    return [
        Row(f"no limit: Keras takes {needed} MiB", "runs", _end(first[0]), _is_fine(first[0])),
        Row(f"no limit: a second that needs {much} MiB", "out of memory", _end(second),
            _is_out_of_memory(framework, second)),
    ]  # fmt: skip


def two_halves_run(stage: Stage, framework: str) -> list[Row]:
    """The same two with one line more: each has its half, and its own error at the end of it."""
    gpus = stage.plan("half-card")["gpus"]
    limit = gpus[0]["limit_bytes"]
    half = str(limit // MIB * 9 // 10) if framework == "torch" else "64"
    given: dict[str, str] = {"profile": "half-card", **_keras(framework)}
    with stage.holding(_PROGRAM, **given, MIB_NEEDED=half) as first:
        second = stage.run(_PROGRAM, **given, MIB_NEEDED=str(limit // MIB + 1))
    whole = limit // _GRANULE * _GRANULE // MIB
    at_once = {"torch": "what it needs", "jax": f"{whole} MiB"}[framework]
    keras, first_mib = (_result(first[0]).get(name, -1) for name in ("keras", "first_mib"))
    context_mib = 1024 if stage.is_real else 0  # at most; a simulated GPU's is not counted
    least, most = (whole - 1, whole) if framework == "jax" else (1, 200)
    good = least <= first_mib <= most + context_mib
    lines = re.findall("^gpuconf: .*$", first[0].log, re.MULTILINE)
    said = "; ".join(line for line in lines if "leases are shared only" not in line)[:140]
    return [
        Row("half-card: Keras runs on it", "a variable on the GPU", str(keras),
            str(keras).startswith("keras ")),
        # Keras changes TensorFlow's growth in the environment, which is not a wish of the program.
        # In a container it also says that leases are not shared with the host.
        Row("half-card: what gpuconf has to say", "nothing", said or "nothing", not said),
        Row(f"half-card: process 1 takes {half} MiB", "runs", _end(first[0]), _is_fine(first[0])),
        Row("half-card without growth: taken with the first array", at_once, f"{first_mib} MiB",
            good),
        Row("half-card: process 2, next to it, requests 1 MiB more than its limit",
            "out of memory", _end(second), _is_out_of_memory(framework, second)),
        *_read_back(framework, [gpu["limit_bytes"] for gpu in gpus], [first[0], second]),
    ]  # fmt: skip


def growth_stops_at_the_cap(stage: Stage, framework: str) -> list[Row]:
    """Growth and a cap, on two GPUs with different limits where there are two."""
    profile = stage.folder / "caps.yaml"
    profile.write_text(
        "memory: {allow_growth: true, memory_limit: 768MiB}\n"
        "per_gpu: {1: {memory: {memory_limit: 512MiB}}}\n",
        encoding="utf-8",
    )
    run = stage.run(
        _PROGRAM, profile=str(profile), FRAMEWORK=framework, STEP_MIB="64", MIB_NEEDED="1"
    )
    plan = [gpu["limit_bytes"] for gpu in stage.plan(str(profile))["gpus"]]
    rows = []
    for number, filled in enumerate(_result(run).get("filled", [])):
        cap = _limits(framework, plan)[number] // MIB
        steps = filled["steps"]
        slack = 128 if stage.is_real else 0  # a real context grows too, and is not under the cap
        grows = len(set(steps)) >= 3 and steps == sorted(steps)
        rows += [
            Row(f"GPU {number}, cap {cap} MiB with growth: held after each 64 MiB",
                "grows in steps", str(sorted(set(steps))), grows),
            Row(f"GPU {number}: most that was held", f"≤ {cap} MiB, ≥ {cap - 128}",
                f"{max(steps, default=0)} MiB",
                cap - 128 <= max(steps, default=0) <= cap + slack),
            Row(f"GPU {number}: the end", "out of memory", filled["error"][:140],
                filled["error"].startswith(_OUT_OF_MEMORY[framework])),
        ]  # fmt: skip
    return rows + _read_back(framework, plan, [run])


def tensorflow_runs_beside(stage: Stage, framework: str) -> list[Row]:
    """A mixed pair: TensorFlow holds its half, and the other framework has its own."""
    limit = stage.plan("half-card")["gpus"][0]["limit_bytes"]
    need = str(limit // MIB * 9 // 10)
    given = {"profile": "half-card", "FRAMEWORK": framework}
    other = need if framework == "torch" else "64"
    with stage.holding("hold_memory.py", profile="half-card", MIB_NEEDED=need, EMPTY="1") as first:
        second = stage.run(_PROGRAM, **given, MIB_NEEDED=other)
    title = TITLES[framework]
    return [
        Row(f"half-card: TensorFlow holds {need} MiB", "runs", f"exit {first[0].code}",
            first[0].code == 0),
        Row(f"half-card: {title} next to it takes {other} MiB", "runs", _end(second),
            _is_fine(second)),
    ]  # fmt: skip


def _keras(framework: str) -> dict[str, str]:
    return {"FRAMEWORK": framework, "KERAS_BACKEND": framework, "VIA_KERAS": "1"}


def _result(run: ScriptRun) -> dict[str, Any]:
    return run.result or {}


def _end(run: ScriptRun) -> str:
    """How a program ended, for a table."""
    if run.result is None:
        return f"exit {run.code}: {run.last_error[:120]}"
    error = run.result["error"]
    return str(error)[:140] if error else f"exit {run.code}"


def _is_fine(run: ScriptRun) -> bool:
    return run.code == 0 and run.result is not None and run.result["error"] is None


def _is_out_of_memory(framework: str, run: ScriptRun) -> bool:
    error = str(_result(run).get("error"))
    return run.code == 0 and error.startswith(_OUT_OF_MEMORY[framework])


def _limits(framework: str, plan: list[int]) -> list[int]:
    """What the plan's limits come to: JAX has one fraction for all, and whole 2 MiB."""
    if framework == "torch":
        return plan
    return [min(plan) // _GRANULE * _GRANULE] * len(plan)


def _read_back(framework: str, plan: list[int], runs: list[ScriptRun]) -> list[Row]:
    """The limits that the framework gives when it is asked, next to the plan's."""
    expected = _limits(framework, plan)
    rows = []
    for number, run in enumerate(runs, start=1):
        what = "limit read back" if len(runs) == 1 else f"process {number}: limit read back"
        seen = _result(run).get("limits", [])
        if seen is None:  # its error for out of memory says what is allowed
            rows.append(Row(what, f"{expected} bytes", "this version has no such call", True))
            continue
        pairs = zip(seen, expected, strict=False)
        good = len(seen) == len(expected) and all(_is_same(framework, *pair) for pair in pairs)
        rows.append(Row(what, f"{expected} bytes", json.dumps(seen), good))
    return rows


def _is_same(framework: str, seen: int, expected: int) -> bool:
    """XLA before 0.5 does not round up: its limit is within a step of the float32 fraction."""
    step = expected >> 22 if framework == "jax" else 0
    return 0 <= expected - seen <= step


ALL: tuple[Check, ...] = (
    without_us_the_second_dies,
    two_halves_run,
    growth_stops_at_the_cap,
    tensorflow_runs_beside,
)
