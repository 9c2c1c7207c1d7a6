"""The story told: what each outcome is called, and lines that fit the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.demo.quick import QuickHalf, quick_holds
from gpuconf.commands.demo.report import after_lines, before_lines, lines_of
from gpuconf.commands.demo.runner import ScriptRun
from gpuconf.commands.demo.story import ScenarioRuns, holds
from gpuconf.support.reporting.lines import broken

RESULT: dict[str, Any] = {
    "losses": [2.0, 0.25],
    "accuracy": 0.853,
    "peak_mib": 1099,
    "trained": [100.0, 112.0],
}
TRAINED = ScriptRun(0, "", RESULT, {"GPU:0": 3942}, 20.0)
RAN = ScriptRun(0, "", {"total": 1.0}, {"GPU:0": 3942}, 5.0)
DIED = ScriptRun(
    1, Path(__file__).with_name("died.log").read_text(encoding="utf-8"), None, {"GPU:0": 861}, 22.4
)


LATER = TRAINED._replace(result={**RESULT, "trained": [105.0, 118.0]})


def _half(
    first: ScriptRun = TRAINED, second: ScriptRun = LATER, ninety: ScriptRun = RAN
) -> ScenarioRuns:
    """A half as it should be, but for what is given."""
    return ScenarioRuns(first, second, ninety, 9319 * MIB, 1536 * MIB)


def test_a_death_is_told_with_place_and_cause() -> None:
    """The script's own line, and the cause that Keras hides below a second traceback."""
    lines = before_lines(_half(second=DIED))
    assert "finds 1536 MiB, and fails (exit code 1, after 22 s)." in lines[1]
    assert lines[2:4] == [
        "   train_digits.py, line 31: history = model.fit(x, y)",
        "   ResourceExhaustedError: OOM when allocating tensor with shape[512,128,128,32] "
        "and type float",
    ]


def test_the_same_losses_are_said_to_be_the_same() -> None:
    """Equal to the bit is said in short; others are given as they are."""
    before = _half(second=DIED)
    same = "\n".join(after_lines(_half(), before))
    assert same.count("with the same losses to the bit") == 2
    assert "Both trained at the same time for 7 s." in same
    other = TRAINED._replace(result={**RESULT, "losses": [2.0, 0.5]})
    text = "\n".join(after_lines(_half(second=other), before))
    assert "A second train_digits.py next to it learns: loss 2.000, 0.500; 85 % of" in text


def test_trainings_one_after_the_other_did_not_train_at_once() -> None:
    """Where the first was done before the second began, nothing else is claimed."""
    half = _half(second=TRAINED._replace(result={**RESULT, "trained": [113.0, 120.0]}))
    assert half.both_trained_s == 0
    assert _half().both_trained_s == 7
    assert "at once" not in "\n".join(after_lines(half, half))


@pytest.mark.parametrize(
    ("before", "after", "is_so"),
    [
        ({"second": DIED}, {}, True),
        ({}, {}, False),
        ({"second": DIED}, {"second": DIED}, False),
        ({"second": DIED}, {"ninety": DIED}, False),
        ({"first": DIED, "second": DIED}, {}, False),
        ({"second": DIED}, {"first": TRAINED._replace(result={**RESULT, "accuracy": 0.1})}, False),
    ],
)
def test_when_the_story_holds(
    before: dict[str, ScriptRun], after: dict[str, ScriptRun], is_so: bool
) -> None:
    """The second fails without the line, all else lives, and whoever trains has learned."""
    assert holds(_half(**before), _half(**after)) == is_so


@pytest.mark.parametrize("width", [40, 60, 100])
def test_no_line_is_broken_by_the_terminal(width: int) -> None:
    """Lines are shorter than the terminal is wide, and the rest of one is below its beginning."""
    half = _half(second=DIED)
    whole = [*before_lines(half), *after_lines(_half(), half)]
    lines = [line.text for line in broken(lines_of(whole), width)]
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(whole).split())
    starts = ("1. ", "2. ", "3. ", "   ")
    assert all(line.startswith(starts) and line[3] != " " for line in lines)


HELD = ScriptRun(0, "", {"in_use_mib": 1024}, {"GPU:0": 3942}, 5.0)


@pytest.mark.parametrize(
    ("before", "after", "is_so"),
    [
        ((HELD, DIED), (HELD, HELD), True),
        ((HELD, HELD), (HELD, HELD), False),
        ((DIED, DIED), (HELD, HELD), False),
        ((HELD, DIED), (DIED, HELD), False),
        ((HELD, DIED), (HELD, DIED), False),
    ],
)
def test_when_the_short_story_holds(
    before: tuple[ScriptRun, ScriptRun], after: tuple[ScriptRun, ScriptRun], is_so: bool
) -> None:
    """The second program fails without the line, and nothing else does."""
    assert quick_holds(_quick(*before), _quick(*after)) == is_so


def _quick(first: ScriptRun, second: ScriptRun) -> QuickHalf:
    return QuickHalf(first, second, 9319 * MIB, 1536 * MIB)
