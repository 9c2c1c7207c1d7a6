"""The report as lines: what fits a terminal, what is never broken, what each width shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, KIB, MIB
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.live import TENSORFLOW
from gpuconf.commands.doctor.probe_results import LiveStep, MeasuredHolder, MeasuredRun, ProbedCard
from gpuconf.commands.doctor.report import CardReport, MemoryBar, ProfileInForce, Report
from gpuconf.commands.doctor.text import TextLayout, lines_of
from tests import golden

REPORTS = Path(__file__).parent / "reports"
LONG = "one two three four five six seven eight nine ten " * 4
FIX = f"export SOMETHING={'x' * 120}"
WARN = Finding("a.warns", "warn", LONG.strip(), ("a detail",), fix=FIX)
FAIL = Finding("b.fails", "fail", "it does not work", fix="first line\n    second line")
CRASH = Finding("c.breaks", "crash", "a bug", ("where",), fix="report it")
OK = Finding("d.fine", "ok", "fine", ("why it is",))
SKIP = Finding("driver.present", "skip", "no NVIDIA GPU here")
CARD = CardReport(
    0,
    name="NVIDIA A100-SXM4-40GB with a name that is long",
    bar=MemoryBar(3 * GIB, GIB, 7 * GIB, GIB),
    holders=tuple(MeasuredHolder(pid, "python3", "alice", pid * MIB) for pid in range(6)),
    remarks=("drives the display",),
)
REPORT = Report((OK, WARN, CRASH, SKIP, FAIL), profile=ProfileInForce("half-card", None, "so"))


def text(report: Report, shape: TextLayout = TextLayout()) -> list[str]:  # noqa: B008  # immutable
    """The lines without their styles."""
    return [line.text for line in lines_of(report, shape)]


MIG = CARD._replace(
    index=3,
    bar=None,
    instances=tuple(CARD._replace(name=f"{CARD.name} MIG 1g.5gb") for _ in range(2)),
)
LATE = Finding("source.env_late", "warn", "a.py:1: late", ("    import keras", "why"), "fix")
REFUSED = Finding("profile.choice", "fail", "refused", ("hint: write it so", "why"), "fix")
STEPS = tuple(LiveStep(name, (0,), 1.25) for name in TENSORFLOW.steps)
RUN = MeasuredRun(None, (ProbedCard(0, "GPU 0 GeForce RTX 3060 (GPU-1e8d35e3)"),), STEPS)
ALL = REPORT._replace(
    findings=(*REPORT.findings, LATE, REFUSED), cards=(CARD, CardReport(1), MIG), probe=(RUN,)
)
SHAPES = {
    "wide": TextLayout(width=120),
    "narrow": TextLayout(width=50),
    "ascii": TextLayout(ascii=True),
    "verbose": TextLayout(width=100, verbose=True),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_whole_report(name: str) -> None:
    """Failures, warnings, then what crashed, each with its fix; GPUs in rows or below their names.

    The line of a script and a hint are shown to all, the rest of the detail with -v.  The parts of
    a bar share its width as the memory is shared; of six processes four are listed; MIG instances
    stand below their GPU.  A probe that came through is one line.
    """
    golden.check(REPORTS / f"{name}.txt", "\n".join([*text(ALL, SHAPES[name]), ""]))


@pytest.mark.parametrize("width", [70, 120])
def test_a_cards_figures_add_up(width: int) -> None:
    """Though no part is a whole number of MiB."""
    odd = CARD._replace(bar=MemoryBar(*(1000 * MIB + 700 * KIB,) * 4))
    lines = text(REPORT._replace(cards=(odd,)), TextLayout(width=width))
    (row,) = (line for line in lines if " 1000" in line)
    total, *parts = map(int, re.findall(r"\b\d{4}\b", row))
    assert total == sum(parts) == 4002


@pytest.mark.parametrize("width", [40, 80, 100, 120])
def test_lines_fit_the_terminal_except_what_is_pasted(width: int) -> None:
    """Everything is broken at spaces, and a fix is not."""
    report = REPORT._replace(cards=(CARD, CardReport(1), CARD._replace(index=2)))
    lines = text(report, TextLayout(width=width, verbose=True))
    assert f"       fix: {FIX}" in lines
    assert lines[lines.index("       fix: first line") + 1] == "                second line"
    assert [line for line in lines if len(line) > width and FIX not in line] == []


def test_a_script_in_which_nothing_was_found() -> None:
    """It was read for some patterns, which does not show that it has no problems."""
    clean = Finding("source.clean", "ok", "a.py: read; none of the 10 patterns was found")
    assert text(Report((clean,)))[0] == "none of the patterns looked for was found"
    assert text(Report((OK, clean)))[0] == "No problems found on this machine."
    for report in (Report((OK, clean)), REPORT._replace(findings=(*REPORT.findings, clean))):
        assert text(report)[-2] == clean.summary
        assert (
            text(report, TextLayout(verbose=True)).count(f"OK     source.clean  {clean.summary}")
            == 1
        )


def test_when_the_probe_is_not_one_line() -> None:
    """Where something of it is wrong, or it is shown anyway; why there was none is said."""
    tight = Finding("live.headroom", "warn", "tight", fix="fix")
    died = RUN._replace(steps=(*STEPS[:-1], STEPS[-1]._replace(seconds=None)))
    for report in (Report((OK, tight), probe=(RUN,)), Report((OK,), probe=(died,)),
                   Report((OK,), probe=(RUN, RUN)), Report((OK,), probe=())):  # fmt: skip
        assert not any(each.startswith("probe: ") for each in text(report))
    none = Finding("live.start", "skip", "no GPU here")
    assert "probe: no GPU here" in text(Report((OK, none), probe=()))


@given(st.tuples(*[st.integers(0, 80 * GIB)] * 4), st.integers(20, 200))
def test_a_bar_is_always_as_wide_as_the_others(
    sizes: tuple[int, int, int, int], width: int
) -> None:
    """Whatever the parts; one that is more than a hundredth is seen."""
    report = Report((OK,), cards=(CARD._replace(bar=MemoryBar(*sizes)), CARD))
    bars = ["".join(sign for sign in line if sign in "█▓▒░")
            for line in text(report, TextLayout(width=width))]  # fmt: skip
    rows = [bar for bar in bars if len(bar) > 4]  # the legend has four signs
    assert len(rows) == 2
    assert len(rows[0]) == len(rows[1])
    for sign, size in zip("█▓▒░", sizes, strict=True):
        assert (rows[0].count(sign) > 0) >= (size * 50 > sum(sizes))
