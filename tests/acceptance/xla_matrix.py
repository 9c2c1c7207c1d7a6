"""Which TensorFlow's XLA compiles and runs on the simulated GPU: part of `make matrix`.

`python -m tests.acceptance.xla_matrix` writes its part of docs/matrix.md; with `--python PATH …` it
takes those Pythons and only prints, with `--json` a line for each fact.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpuconf.basics.units import MIB
from gpuconf.simcard import CardSpec, simulated_card, xla_for_command
from tests.acceptance.matrix import ENVIRONMENTS, MatrixError, python_of
from tests.acceptance.matrix_page import WRITTEN, plain, replace_part

HEAD = "# What XLA does on which TensorFlow"
ABOUT = """
Written by `make matrix` too (`python -m tests.acceptance.xla_matrix`): each TensorFlow's own XLA on
a simulated GPU of 4096 MiB, small models, batch 64 (mlp: 2048), Adam, one process for a version.
*Compile*: a training step is compiled without running anything, and XLA writes its buffer
assignment. *Replay*: the step runs, compiled, with kernels skipped, and the peak of TensorFlow's
allocator is the sum of the assignment's parts, within 1 %; the figure is the difference. What is in
use before the step is one piece there, so the holes that earlier work has left are not in it; a
real block that lies in one may take more, as the differences below zero show. *Recurrent*: what
Keras decides for an LSTM where `jit_compile` is not set.
"""
PROGRAM = Path(__file__).with_name("programs") / "xla_steps.py"
COMPILED, RECURRENT = ("mlp", "cnn", "resnet", "transformer"), "recurrent"
CARD = CardSpec(total_bytes=4096 * MIB)
CLOSE = 0.01
GRANULE_BYTES = 256  # of TensorFlow's allocator
_TIMEOUT_S = 900
_ALLOCATION = re.compile(r"allocation \d+: (?:0x[0-9a-f]+, )?size (\d+), (.*)")


def predicted_bytes(assignment: str, in_use_bytes: int) -> int:
    """The peak of a step with this assignment, where so much is in use before it.

    The batch and the results that alias no variable are allocated, then one block for the rest.
    """
    sizes = [in_use_bytes]
    for line in assignment.partition("Total bytes")[0].splitlines():
        found = _ALLOCATION.match(line)
        if found is None or "thread-local" in found[2] or "constant" in found[2]:
            continue
        is_resident = "parameter" in found[2] and "maybe-live-out" in found[2]
        if not is_resident:
            sizes.append(int(found[1]))
    return sum(-(-size // GRANULE_BYTES) * GRANULE_BYTES for size in sizes)


def run_version(python: str) -> list[dict[str, Any]]:
    """All facts of one Python's TensorFlow; a model over which the process failed has an error."""
    facts: list[dict[str, Any]] = []
    left = [*COMPILED, RECURRENT]
    while left:
        found, code = _run(python, left)
        facts += found
        if code == 0:
            break
        died = found[-1]["model"] if found else left[0]
        if found and found[-1]["what"] == "run_steps":
            died = left[min(left.index(died) + 1, len(left) - 1)]
        version = facts[0]["version"] if facts else python
        error = {"version": version, "model": died, "what": "died", "error": f"exit code {code}"}
        facts.append(error)
        left = left[left.index(died) + 1 :]
    return facts


def _run(python: str, models: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    support = xla_for_command([python])
    with tempfile.TemporaryDirectory() as dump, simulated_card(CARD) as card:
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "XLA_DUMP": dump, "GPUCONF_SIMCARD_KERNELS": "skip"}
        environ = card.environment({**os.environ, **quiet}, xla=support)
        environ["XLA_FLAGS"] += f" --xla_dump_to={dump}"
        done = subprocess.run(
            [python, str(PROGRAM), *models],
            env=environ, stdout=subprocess.PIPE, text=True, check=False, timeout=_TIMEOUT_S,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
        return [judged(json.loads(line.removeprefix("FOUND "))) for line in lines], done.returncode


def judged(fact: dict[str, Any]) -> dict[str, Any]:
    """The fact with what its assignment gives in place of the files' names."""
    if "assignments" not in fact:
        return fact
    texts = [Path(name).read_text(encoding="utf-8") for name in fact.pop("assignments")]
    if not texts:
        return {**fact, "error": "XLA wrote no buffer assignment"}
    before = fact.get("in_use_bytes", 0)
    predicted = max(predicted_bytes(text, before) for text in texts)
    return {**fact, "predicted_bytes": predicted}


def error_of(fact: dict[str, Any]) -> float:
    """By how much the prediction is off, as a share of the peak."""
    return float(fact["predicted_bytes"] / fact["peak_bytes"] - 1)


def row_of(facts: Sequence[dict[str, Any]]) -> list[str]:
    """A version's cells: compile and replay for each model, and what is decided for an LSTM."""
    cells = [f"TensorFlow {facts[0]['version']}"]
    for model in COMPILED:
        mine = {fact["what"]: fact for fact in facts if fact["model"] == model}
        cells.append(_mark("error" not in mine.get("compile_step", {"error": ""})))
        ran = mine.get("run_steps", {"error": ""})
        off = None if "error" in ran else error_of(ran)
        cells.append("✗" if off is None else f"{_mark(abs(off) <= CLOSE)} {off:+.2%}")
    said = [fact.get("jit") for fact in facts if fact["model"] == RECURRENT]
    cells.append("✗" if said[-1:] in ([], [None]) else "XLA" if said[-1] else "op by op")
    return cells


def _mark(is_good: bool) -> str:
    return "✓" if is_good else "✗"


def part_of_versions(rows: Iterable[Sequence[str]], remarks: Iterable[str]) -> str:
    """The part of the page."""
    heads = [f"{model}: {what}" for model in COMPILED for what in ("compile", "replay")]
    lines = [["", *heads, RECURRENT], ["---"] * (len(heads) + 2), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "\n".join(f"- {remark}" for remark in remarks)
    text = f"{HEAD}\n{ABOUT}\n{datetime.date.today()}.\n\n{table}\n"
    return text + (f"\n{notes}\n" if notes else "")


def _remarks(facts: Iterable[dict[str, Any]]) -> list[str]:
    names = ("version", "model", "what", "error")
    failed = [fact for fact in facts if "error" in fact]
    return [plain(" ".join(str(fact[name]) for name in names)) for fact in failed]


def main() -> int:
    """Run, print and write; exit 1 if a cell is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", metavar="PATH", help="these; nothing is written")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write it there anyway")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each fact")
    options = parser.parse_args()
    try:
        pythons = options.python or [str(python_of(*each)) for each in ENVIRONMENTS.items()]
    except MatrixError as error:
        print(f"matrix: {error}; {WRITTEN.name} is left as it was", file=sys.stderr)
        return 1
    rows, remarks = [], []
    for python in pythons:
        print(f"{python}: XLA", file=sys.stderr, flush=True)
        facts = run_version(python)
        if options.json:
            print("\n".join(map(json.dumps, facts)), flush=True)
        rows.append(row_of(facts))
        remarks += _remarks(facts)
    part = part_of_versions(rows, remarks)
    if not options.json:
        print(part)
    written = options.write or (None if options.python else WRITTEN)
    if written is not None:
        replace_part(part, written)
    return 1 if any("✗" in cell for row in rows for cell in row) else 0


if __name__ == "__main__":
    sys.exit(main())
