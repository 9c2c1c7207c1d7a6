"""The parent process of a comparison: the same cases with TensorFlow on the CPU and on the card.

A side is an environment.  If a process dies, its last output is recorded for the case that it was
running, and the remaining cases continue in a fresh process: a crash never hides the other rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.training.on_device import CARD, COMPARABLE_CPU, INTER_OP_VARIABLE, SIDE_VARIABLE
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card
from gpuconf.units import MIB

SPEC = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB)
_STEERING = ("TF_", "XLA_", "KERAS_", "CUDA_", "GPUCONF_")
_ROOT = str(Path(__file__).resolve().parents[2])
_DYING_WORDS = 12
_TIMEOUT_S = 3000


class Side(NamedTuple):
    """Where TensorFlow computes: a name for the table, and the environment of its processes."""

    name: str
    environ: Mapping[str, str]
    python: str = sys.executable


class Result(NamedTuple):
    """The result of one case on one side; ``error`` is None if it succeeded."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]
    error: str | None = None


def cpu(environ: Mapping[str, str], *, inter_op_threads: int | None = None) -> Side:
    """TensorFlow without a GPU, with the same kernels and graphs as on the card.

    oneDNN's kernels are off, and so are grappler's remapper and layout optimizer (see
    ``on_device.prepare``): they would fuse nodes of the graph into other kernels.  The CPU uses the
    BFC allocator, so that it keeps statistics.
    """
    more = {
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": "16384",
    }
    return Side(COMPARABLE_CPU, {**_without_gpu(environ, COMPARABLE_CPU, inter_op_threads), **more})


def default_cpu(environ: Mapping[str, str], *, inter_op_threads: int | None = None) -> Side:
    """TensorFlow without a GPU and with all its defaults."""
    name = "default-cpu"
    return Side(name, _without_gpu(environ, name, inter_op_threads))


@contextmanager
def card(
    environ: Mapping[str, str],
    *,
    inter_op_threads: int | None = None,
    python: str = sys.executable,
    spec: CardSpec = SPEC,
) -> Iterator[Side]:
    """The simulated card with the kernel bridge and no other settings, as for users."""
    with simulated_card(spec) as made:
        clean = _clean(environ, CARD, inter_op_threads)
        bridge = bridge_for_command([python], environ=clean)
        yield Side(CARD, made.environment(clean, bridge=bridge), python)


def run_side(side: Side, program: Path, names: Sequence[str], folder: Path) -> dict[str, Result]:
    """Run ``program`` (see :func:`on_device.run_cases`) on a side until every case has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = {}
    left = list(names)
    while left:
        command = [side.python, str(program), str(folder), *left]
        done = subprocess.run(
            command,
            env=dict(side.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
        )
        ended, begun = _read(done.stdout)
        results.update(ended)
        left = [name for name in left if name not in ended]
        if left:
            at = begun if begun in left else left[0]
            results[at] = Result({}, {}, _dying_words(done))
            left.remove(at)
    return results


def _read(output: str) -> tuple[dict[str, Result], str | None]:
    """The cases that ended, and the one that was started last."""
    ended: dict[str, Result] = {}
    begun: str | None = None
    for line in output.splitlines():
        if not line.startswith("CASE "):
            continue
        told = json.loads(line.removeprefix("CASE "))
        begun = told.get("begun", begun)
        if "ended" in told:
            ended[told["ended"]] = _result(told)
    return ended, begun


def _result(told: Mapping[str, Any]) -> Result:
    if "error" in told:
        return Result({}, {}, told["error"])
    file = Path(told["file"])
    with np.load(file) as stored:
        arrays = {key: stored[key] for key in stored.files}
    file.unlink()
    return Result(arrays, told["facts"])


def _dying_words(done: subprocess.CompletedProcess[str]) -> str:
    words = "\n".join(done.stderr.strip().splitlines()[-_DYING_WORDS:])
    return f"the process ended with code {done.returncode}:\n{words}"


def _without_gpu(environ: Mapping[str, str], name: str, threads: int | None) -> dict[str, str]:
    return {**_clean(environ, name, threads), "CUDA_VISIBLE_DEVICES": "-1"}


def _clean(environ: Mapping[str, str], name: str, threads: int | None) -> dict[str, str]:
    """``environ`` without TensorFlow's settings; programs can import this package."""
    kept = {key: value for key, value in environ.items() if not key.startswith(_STEERING)}
    paths = [_ROOT, *([environ["PYTHONPATH"]] if environ.get("PYTHONPATH") else [])]
    kept |= {SIDE_VARIABLE: name, "PYTHONPATH": os.pathsep.join(paths)}
    if threads is not None:
        kept[INTER_OP_VARIABLE] = str(threads)
    return kept
