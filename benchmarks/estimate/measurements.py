"""Measurements of cases, made once and stored: a file of JSON lines, see ``Measured``.

A line is written as soon as its case has ended, so that an interrupted run can be continued.  Its
key is the case, the stage and the versions of TensorFlow and Keras.  If a model's definition
changes, its name must change too.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.estimate.cases import Case
from benchmarks.machine import version
from benchmarks.stages import ChildError, Stage, run_module

TIMEOUT_S = 400.0
CHILD = "benchmarks.estimate.child"


class Measured(NamedTuple):
    """The memory of a case on a stage, in bytes of TensorFlow's allocator; one line of the file.

    ``peak_bytes`` is the process's peak after two steps, ``first_step_peak_bytes`` after one,
    ``built_peak_bytes`` before them; ``resident_bytes`` are those in use after the second.  All are
    None if there was an ``error``.  ``wall_s`` is the child's lifetime, ``step_s`` its last step.
    The order in which TensorFlow's CPU device runs a graph's nodes varies, even with one thread:
    VGG16 at batch 4 uses between 738 and 1069 MiB.
    """

    case: str
    stage: str
    tensorflow: str
    keras: str
    model: str
    optimizer: str
    batch: int
    policy: str
    is_training: bool
    peak_bytes: int | None = None
    first_step_peak_bytes: int | None = None
    built_peak_bytes: int | None = None
    resident_bytes: int | None = None
    step_s: float | None = None
    wall_s: float | None = None
    error: str | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key in the file."""
        return self.case, self.stage, self.tensorflow, self.keras


class Measurements:
    """The file of measurements; without a file, they are kept in this object only."""

    def __init__(self, file: Path | None = None) -> None:
        """Read the file."""
        self._file = file
        self._known: dict[tuple[str, str, str, str], Measured] = {}
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
        for peak in map(_peak_of, lines):
            if peak is not None:
                self._known[peak.key] = peak

    def has(self, case: Case, stage: Stage) -> bool:
        """Whether the file has the case's peak on the stage."""
        return _bare(case, stage.name).key in self._known

    def measure(self, case: Case, stage: Stage, *, timeout_s: float = TIMEOUT_S) -> Measured:
        """The case's peak on the stage: read from the file, or measured now and stored."""
        known = self._known.get(_bare(case, stage.name).key)
        return known or self._keep(measure_case(case, stage, timeout_s=timeout_s))

    def _keep(self, peak: Measured) -> Measured:
        self._known[peak.key] = peak
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            line = json.dumps(peak._asdict(), ensure_ascii=False) + "\n"
            # A single appending write: no partial lines, even if two runs share the file.
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(handle, line.encode("utf-8"))
            finally:
                os.close(handle)
        return peak


def measure_case(case: Case, stage: Stage, *, timeout_s: float = TIMEOUT_S) -> Measured:
    """Run a case in a fresh process; ``error`` has any failure."""
    began = time.monotonic()
    bare = _bare(case, stage.name)
    try:
        (found,) = run_module(CHILD, {"measure": case}, stage, timeout_s)
    except ChildError as error:
        found = {"error": str(error)}
    fields: dict[str, Any] = {key: found[key] for key in found if key in Measured._fields}
    return bare._replace(**fields, wall_s=round(time.monotonic() - began, 1))


def _bare(case: Case, stage: str) -> Measured:
    return Measured(case.name, stage, version("tensorflow"), version("keras"), *case)


def _peak_of(line: str) -> Measured | None:
    """Parse a line of the file; None if it is truncated or has other fields."""
    try:
        return Measured(**json.loads(line))
    except (ValueError, TypeError):
        return None
