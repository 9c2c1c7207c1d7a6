"""One run of a prepared script, on a simulated GPU: to its end, rehearsed, or estimated."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from tests.public import prepare
from tests.public.listing import Script

MIB = 1 << 20
CONTEXT_BYTES = 450 * MIB
BIG_CARD_BYTES = 12 << 30
OUT_OF_MEMORY = ("ResourceExhaustedError", "OOM when allocating", "RESOURCE_EXHAUSTED")
TIMEOUT_S = 300


def card_for(limit_bytes: int) -> int:
    """The GPU whose limit TensorFlow would set at so many bytes: it leaves a reserve free.

    225 MiB below 2 GiB of free memory, else 1536 MiB for the simulated GPU's generation
    (gpu_device.cc, MinSystemMemory). A limit between both cannot be had; it is the next larger.
    """
    small, large = limit_bytes + 225 * MIB, limit_bytes + 1536 * MIB
    free = small if small < 2048 * MIB else max(large, 2048 * MIB)
    return CONTEXT_BYTES + -(-free // MIB) * MIB


def size(count: int) -> str:
    """A size as the commands take it."""
    return f"{count // MIB}MiB"


def run_to_end(script: Script, sources: pathlib.Path, card_bytes: int) -> dict[str, Any]:
    """Run the whole script: how it ended, and the peak of TensorFlow's allocator."""
    with tempfile.TemporaryDirectory(prefix="public-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        target = prepare.prepare(script, sources, folder, as_notebook=False)
        peak = folder / "peak.json"
        command = [
            *(sys.executable, "-m", "gpuconf.simcard", "run", "--total", size(card_bytes)),
            *(
                "--context",
                size(CONTEXT_BYTES),
                "--",
                sys.executable,
                target.name,
                *script.arguments,
            ),
        ]
        code, output, seconds = start(command, script, folder, {"STAND_IN_PEAK": str(peak)})
        found: dict[str, Any] = {"card_bytes": card_bytes, "code": code, "seconds": seconds}
        if peak.exists():
            found["peak_bytes"] = json.loads(peak.read_text())["peak"]
        found["ended"] = ending(code, output)
        if found["ended"] not in ("well", "out of memory"):
            found["output"] = output[-2000:]
        return found


def ending(code: int, output: str) -> str:
    """How a run ended."""
    if code == 0:
        return "well"
    if any(phrase in output for phrase in OUT_OF_MEMORY):
        return "out of memory"
    return "too late" if code == -signal.SIGKILL else "failed"


def rehearse(script: Script, sources: pathlib.Path, card_bytes: int) -> dict[str, Any]:
    """`gpuconf rehearse --json` of the script on a GPU: the document, or what came instead."""
    with tempfile.TemporaryDirectory(prefix="public-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        target = prepare.prepare(script, sources, folder, as_notebook=script.is_notebook)
        program = [target.name] if script.is_notebook else [sys.executable, target.name]
        options = ["--card", size(card_bytes), "--context", size(CONTEXT_BYTES)]
        options += ["--no-jit", "--no-second-run", "--json"]
        command = [*gpuconf("rehearse"), *options, "--", *program, *script.arguments]
        return with_document(*start(command, script, folder, {}))


def estimate(script: Script, sources: pathlib.Path) -> dict[str, Any]:
    """`gpuconf estimate SCRIPT --json`: the document, or what came instead."""
    with tempfile.TemporaryDirectory(prefix="public-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        target = prepare.prepare(script, sources, folder, as_notebook=False)
        command = [*gpuconf("estimate"), target.name, "--no-growth", "--no-jit", "--json"]
        if script.arguments:
            command += ["--", *script.arguments]
        return with_document(*start(command, script, folder, {}))


def gpuconf(command: str) -> list[str]:
    return [str(pathlib.Path(sys.executable).with_name("gpuconf")), command]


def with_document(code: int, output: str, seconds: float) -> dict[str, Any]:
    """What a command with --json printed, and how it ended."""
    found: dict[str, Any] = {"code": code, "seconds": seconds}
    stdout, _, rest = output.partition(SEPARATOR)
    try:
        found["document"] = json.loads(stdout)
    except json.JSONDecodeError:
        found["output"] = (stdout + rest)[-2000:]
    return found


SEPARATOR = "\n--- stderr ---\n"


def start(
    command: list[str], script: Script, folder: pathlib.Path, more: dict[str, str]
) -> tuple[int, str, float]:
    """Exit code, stdout and stderr, seconds. A run that is too long is killed with its children."""
    began = time.monotonic()
    environ = {**prepare.environment(script, folder), **more}
    with subprocess.Popen(
        ["nice", "-n", "5", "timeout", "-k", "5", str(TIMEOUT_S), *command],
        cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace",
    ) as process:  # fmt: skip
        stdout, stderr = process.communicate()
    code = -signal.SIGKILL if process.returncode in (124, 137) else process.returncode
    return code, stdout + SEPARATOR + stderr, round(time.monotonic() - began, 1)
