"""What ran, phase by phase: peaks from the tape, growth, and the words of a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.rehearse.agent.memory import MARK
from gpuconf.commands.rehearse.phases import growing, growth_of, phases_of, what_ran
from gpuconf.commands.rehearse.report import sections
from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.commands.rehearse.trace import tape_of
from gpuconf.commands.rehearse.verdict import verdict_of
from gpuconf.support.xplane import Event
from tests.commands.rehearse.test_rehearsal_report import rehearsal

LIMIT = 400 * MIB


def event(time_ns: int, in_use_mib: int) -> Event:
    """An allocation after which so much is in use."""
    stats: dict[str, Any] = {
        "allocator_name": "GPU_0_bfc",
        "bytes_allocated": in_use_mib * MIB,
        "bytes_available": LIMIT - in_use_mib * MIB,
        "peak_bytes_in_use": in_use_mib * MIB,
        "addr": time_ns,
    }
    return Event("MemoryAllocation", time_ns, stats)


def phase(number: int, kind: str, what: str, **facts: Any) -> dict[str, Any]:
    """As the agent notes it."""
    return {"number": number, "kind": kind, "what": what, "where": None, **facts}


PHASES = [
    phase(0, "build", "the program before its first training run"),
    phase(1, "train", "fit of m", where="train.py:12", steps=3, of=469, batch=64, is_cut=True),
    phase(2, "validate", "validate of m", where="train.py:12"),
    phase(3, "call", "m", where="train.py:31", batch=1024),
]
TAPE = tape_of(
    [
        event(1, 10),
        Event(f"{MARK}phase 1", 2, {}),
        event(3, 60),
        event(4, 40),
        Event(f"{MARK}phase 2", 5, {}),
        event(6, 30),
        Event(f"{MARK}phase 1", 7, {}),
        event(8, 50),
        Event(f"{MARK}phase 3", 9, {}),
        event(10, 300),
    ]
)


def run(code: int | None = 0, phases: list[dict[str, Any]] = PHASES, **facts: Any) -> RunResult:
    """A run of these phases."""
    report = {"tensorflow": "2.21.0", "steps": 3, "phases": phases, "ended": "exit", **facts}
    return RunResult(code, (report,), report, TAPE, (), "", 1.0)


def test_the_peak_of_each_phase() -> None:
    """What is there when a phase begins counts in it; a phase that continues is one."""
    assert [each.peak_bytes for each in phases_of(run())] == [
        10 * MIB,
        60 * MIB,
        40 * MIB,
        300 * MIB,
    ]
    assert {each.limit_bytes for each in phases_of(run())} == {LIMIT}
    assert [each.peak_bytes for each in phases_of(run()._replace(tape=None))] == [None] * 4


def test_the_words_of_the_verdict() -> None:
    """What ran is named, where the script was ended, and where memory ran out."""
    assert verdict_of(run()).because == (
        "3 of 469 steps of fit of m at train.py:12, validation and call of a model ran, and the "
        "script to its end"
    )
    ended = verdict_of(run(None, ended="steps", ended_at="train.py:40"))
    assert ended.because.endswith("ran; the script was ended at train.py:40")
    oom = {"type": "ResourceExhaustedError", "message": "OOM when allocating tensor", "steps": 3}
    failed = [*PHASES[:3], {**PHASES[3], "error": "OOM"}]
    verdict = verdict_of(run(1, failed, uncaught=oom))
    assert (verdict.answer, verdict.because) == (
        "does not fit",
        "out of GPU memory in call of m at train.py:31, after 3 training steps",
    )
    in_training = [PHASES[0], {**PHASES[1], "error": "OOM"}]
    because = verdict_of(run(1, in_training, uncaught=oom)).because
    assert because == "out of GPU memory in step 4 of fit of m at train.py:12"
    many = [{**PHASES[1], "number": number, "steps": number} for number in (1, 2, 3)]
    assert what_ran(phases_of(run(phases=many))) == "1 to 3 steps of 3 training runs"


def test_the_scripts_own_error_after_a_cut() -> None:
    """It fits as far as it ran; before anything was cut there is no verdict."""
    error = {"type": "IndexError", "message": "list index out of range", "where": "train.py:50"}
    verdict = verdict_of(run(1, uncaught=error))
    assert (verdict.answer, verdict.exit_code) == ("fits", 0)
    assert "then the script itself failed at train.py:50: IndexError: list" in verdict.because
    assert "cut short" in (verdict.hint or "")
    whole = [{**each, "is_cut": False} for each in PHASES]
    verdict = verdict_of(run(1, whole, uncaught=error))
    assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)


def test_without_a_training_step() -> None:
    """A script that only predicts on the GPU has a verdict, one that computes nothing has none."""
    predicted = [PHASES[0], phase(1, "predict", "predict of m", where="p.py:3")]
    verdict = verdict_of(run(phases=predicted, steps=0))
    assert (verdict.answer, verdict.because) == (
        "fits",
        "prediction ran, and the script to its end",
    )
    nothing = verdict_of(run(phases=PHASES[:1], steps=0))
    assert (nothing.answer, nothing.exit_code) == ("no verdict", 4)


@pytest.mark.parametrize(
    ("in_use_mib", "growth_mib"),
    [
        ([5, 10, 12, 14, 16], 2),
        ([5, 10, 20, 22, 24, 26], 2),
        ([5, 10, 12, 14], None),  # two increases prove nothing
        ([5, 10, 12, 14, 16, 16], None),  # it has ended
        ([5, 10, 10, 10, 10], None),
        ([], None),
    ],
)
def test_growth(in_use_mib: list[int], growth_mib: int | None) -> None:
    """Each of the last steps took more; the first makes the optimizer's state."""
    found = growth_of([size * MIB for size in in_use_mib])
    assert found == (None if growth_mib is None else growth_mib * MIB)
    assert growth_of([0, 0, 256, 512, 768]) is None  # the losses in a list


def test_growth_is_a_warning() -> None:
    """In words, with the steps that are left."""
    leak = {**PHASES[1], "in_use": [size * MIB for size in (20, 40, 50, 60, 70)]}
    assert growing(phases_of(run(phases=[PHASES[0], leak]))) == [
        "memory grows by 10 MiB a step in fit of m at train.py:12: full after about 34 more steps"
    ]


def test_what_the_report_shows() -> None:
    """A row for each phase, the largest marked; what did not run, and what was not written."""
    facts: dict[str, Any] = {
        "not_run": [{"what": "cp model.keras /srv", "where": "train.py:60", "why": "a program"}],
        "diverted": ["model.keras", "a.csv", "b.csv", "c.csv", "d.csv"],
    }
    by_heading = {each.heading: each for each in sections(rehearsal(first=run(**facts)))}
    table = by_heading["what ran"].table
    assert table is not None
    rows = [tuple(row) for row in table.rows]
    assert len(rows) == 3, "what was before the training is small next to it"
    assert rows[0] == ("fit of m", "train.py:12", "64", "3 of 469", "60 MiB", "15%")
    assert rows[2] == ("call of m", "train.py:31", "1024", "", "300 MiB", "75% ← the peak")
    assert by_heading["what did not run"].lines == (
        "cp model.keras /srv at train.py:60: a program",
        "not written: model.keras, a.csv, b.csv, c.csv and 1 more; these files are unchanged",
    )
