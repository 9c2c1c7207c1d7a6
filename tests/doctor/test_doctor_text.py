"""The report as lines: what fits a terminal, what is never broken, what each width shows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.doctor.finding import Finding
from gpuconf.doctor.live import TENSORFLOW
from gpuconf.doctor.measured import LiveStep, MeasuredHolder, MeasuredRun, ProbedCard
from gpuconf.doctor.report import CardReport, MemoryBar, ProfileInForce, Report
from gpuconf.doctor.text import TextLayout, lines_of
from gpuconf.units import GIB, KIB, MIB

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


def test_the_worst_comes_first() -> None:
    """Failures, warnings, then what crashed; what is fine is counted."""
    lines = text(REPORT)
    starts = [line.split()[0] for line in lines if line[:1].isupper()]
    assert starts == ["FAIL", "WARN", "CRASH"]
    assert "1 failed, 1 warned, 1 crashed, 1 fine, 1 skipped; -v shows all" in lines[-1]


def test_verbose_shows_the_rest_with_details() -> None:
    """Also what is fine and skipped; the details of a problem are for those who ask."""
    lines = text(REPORT, TextLayout(verbose=True))
    assert "OK     d.fine  fine" in lines
    assert "       why it is" in lines
    assert "       a detail" in lines
    assert "       a detail" not in text(REPORT)
    assert "       where" in text(REPORT)


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


def test_a_machine_without_problems() -> None:
    """It says so, and that there is no GPU."""
    assert text(Report((OK, SKIP)))[:2] == ["no NVIDIA GPU here", "No problems found."]
    assert text(Report((OK,)))[0] == "No problems found."


def test_that_there_is_no_gpu_is_always_said() -> None:
    """Also above what is wrong."""
    assert text(REPORT)[0] == "no NVIDIA GPU here"


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


def test_a_probe_that_came_through_is_told_in_one_line() -> None:
    """Its steps, the card and the time; not where something of it is wrong, or is shown anyway."""
    steps = tuple(LiveStep(name, (0,), 1.25) for name in TENSORFLOW.steps)
    run = MeasuredRun(None, (ProbedCard(0, "GPU 0 GeForce RTX 3060 (GPU-1e8d35e3)"),), steps)
    line = "probe: context, matmul, convolution and fit on GPU 0 GeForce RTX 3060: fine, 6.2 s"
    fine = Report((OK,), probe=(run,))
    assert line in text(fine)
    assert line not in text(fine, TextLayout(verbose=True))
    tight = Finding("live.headroom", "warn", "tight", fix="fix")
    died = run._replace(steps=(*steps[:-1], steps[-1]._replace(seconds=None)))
    for report in (Report((OK, tight), probe=(run,)), Report((OK,), probe=(died,)),
                   Report((OK,), probe=(run, run)), Report((OK,), probe=())):  # fmt: skip
        assert not any(each.startswith("probe: ") for each in text(report))
    none = Finding("live.start", "skip", "no GPU here")
    assert "probe: no GPU here" in text(Report((OK, none), probe=()))


def test_the_line_of_source_and_a_hint_are_shown_to_all() -> None:
    """They are the most useful lines; the rest of the detail is for -v."""
    found = Finding("source.env_late", "warn", "a.py:1: late", ("    import keras", "why"), "fix")
    refused = Finding("profile.choice", "fail", "refused", ("hint: write it so", "why"), "fix")
    lines = text(Report((found, refused)))
    assert "           import keras" in lines
    assert "       hint: write it so" in lines
    assert "       why" not in lines


def test_a_card_in_a_row() -> None:
    """The bar shares its width as the memory is shared, the figures are MiB, four holders."""
    lines = text(Report((OK,), cards=(CARD,)), TextLayout(width=120))
    begin = next(place for place, line in enumerate(lines) if line.startswith("GPU"))
    bar = "".join(sign for sign in lines[begin + 1] if sign in "█▓▒░")
    assert bar == "█" * 10 + "▓" * 3 + "▒" * 24 + "░" * 3
    assert lines[begin + 1].split()[-5:] == ["12288", "3072", "1024", "7168", "1024"]
    assert lines[begin + 2] == "     drives the display"
    assert lines[begin + 3] == "     pid 0 python3 of alice holds 0 MiB"
    assert lines[begin + 7] == "     and 2 more processes"
    assert "█ others  ▓ yours  ▒ allowed by" in lines[begin + 8]


def test_a_card_in_a_narrow_terminal() -> None:
    """Its bar and figures stand below its name, and the legend is broken between its parts."""
    lines = text(Report((OK,), cards=(CARD,)), TextLayout(width=50))
    begin = lines.index("GPU  CARD")
    assert lines[begin + 1] == "0    A100-SXM4-40GB wi…"
    assert lines[begin + 2].count("█") == 11
    assert lines[begin + 3] == "     12288 MiB: others 3072, yours 1024, allowed"
    assert lines[begin + 4] == "     7168, left 1024"
    legend = next(place for place, line in enumerate(lines) if "█ others" in line)
    assert lines[legend] == "     █ others  ▓ yours  ▒ allowed by the profile"
    assert lines[legend + 1] == "     ░ left free"


def test_a_terminal_that_knows_ascii_only() -> None:
    """The bar and its legend are made of other signs."""
    lines = text(Report((OK,), cards=(CARD,)), TextLayout(ascii=True))
    assert all(line.isascii() for line in lines if "…" not in line)
    assert "#" * 10 + "+" * 3 in "\n".join(lines)


def test_mig_instances_stand_below_their_card() -> None:
    """Under the card's number, without its name said again."""
    parts = tuple(CARD._replace(name=f"{CARD.name} MIG 1g.5gb") for _ in range(2))
    lines = text(Report((OK,), cards=(CARD._replace(bar=None, instances=parts),)))
    assert [line[:15].split() for line in lines if line.startswith("0.")] == [
        ["0.0", "MIG", "1g.5gb"],
        ["0.1", "MIG", "1g.5gb"],
    ]


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
