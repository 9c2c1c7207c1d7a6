"""The picture: what is refused before anything runs, where moments stand, and that it is drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.json_values import plain
from gpuconf.basics.units import MIB, parse_size
from gpuconf.commands.rehearse import plot
from gpuconf.commands.rehearse.breakdown import DeviceReport
from gpuconf.commands.rehearse.document import document_of
from gpuconf.commands.rehearse.rehearse import Rehearsal
from gpuconf.commands.rehearse.report import advice_section, headline, sections, title
from gpuconf.commands.rehearse.runs import HeldOnCard, Orders, RunResult
from gpuconf.commands.rehearse.suggestion import Measurement, Suggestion
from gpuconf.commands.rehearse.target import Allowance
from gpuconf.commands.rehearse.trace import Point, Tape, TapeMark, Usage
from gpuconf.commands.rehearse.verdict import Verdict
from gpuconf.simcard import CardSpec
from gpuconf.support.failures.failure import Failure
from tests import golden

MARKS = (
    TapeMark(40, "step 1"),
    TapeMark(70, "after step 1"),
    TapeMark(72, "step 2"),
    TapeMark(90, "after step 2"),
    TapeMark(91, "step 3"),
    TapeMark(95, "error"),
)


def test_the_phases() -> None:
    """Build, the steps that ended, and the one that did not; the time between has no name."""
    assert plot.phases(MARKS, 0, 100) == [
        ("build", 0, 40),
        ("step 1", 40, 70),
        ("", 70, 72),
        ("step 2", 72, 90),
        ("", 90, 91),
        ("step 3", 91, 100),
    ]
    assert plot.phases((), 0, 100) == [("build", 0, 100)]


@given(
    times=st.lists(st.integers(0, 1000), min_size=2, max_size=12).map(sorted),
    probes=st.lists(st.integers(-10, 1100), max_size=20).map(sorted),
)
def test_the_clock_goes_forward(times: list[int], probes: list[int]) -> None:
    """Later is never further left, and everything is on the axis, whatever the phases."""
    marks = []
    for number, (begin, end) in enumerate(zip(times[::2], times[1::2], strict=False), start=1):
        marks += [TapeMark(begin, f"step {number}"), TapeMark(end, f"after step {number}")]
    clock = plot.Clock.of(plot.phases(tuple(marks), 0, 1001))
    places = [clock.place(probe) for probe in probes]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    assert clock.edges[-1] == pytest.approx(1)


def rehearsal(*, fits: bool) -> Rehearsal:
    """A small rehearsal with all there can be in it."""
    series = tuple(Point(time, time * MIB) for time in range(1, 99, 3))
    usage = Usage(0, 100 * MIB, 97 * MIB, 97, series, ())
    failure = None if fits else Failure("gpu_memory", "OOM", "m/c1/Relu", (4, 4), "float", 9 * MIB)
    answer = "fits" if fits else "does not fit"
    report = {
        "steps": 2,
        "tensorflow": "2.21.0",
        "keras": ["keras", "3.15.1"],
        "batch": {"used": 8},
    }
    held = (HeldOnCard(5, 0, 50 * MIB), HeldOnCard(60, 0, 120 * MIB))
    return Rehearsal(
        command=("python", "train.py", "--name", "two words"),
        spec=CardSpec(
            total_bytes=parse_size("1.2GiB"), used_bytes=200 * MIB, context_bytes=450 * MIB
        ),
        orders=Orders(profile="shared-desktop"),
        verdict=Verdict(answer, "because", 0 if fits else 1, failure),  # type: ignore[arg-type]
        first=RunResult(None, (report,), report, Tape((usage,), MARKS), held, "", 1.0),
        devices=(DeviceReport(0, 0, 100 * MIB, 97 * MIB, 120 * MIB, ()),),
        measurements=(Measurement(4, 50 * MIB), Measurement(8, 97 * MIB)),
        suggestion=Suggestion(6, None, 75 * MIB, failed=8),
        survived=1,
        notes=("a note",),
        allowances=(Allowance("half-card", 579 * MIB),),
    )


@pytest.mark.slow
def test_a_picture_is_drawn(tmp_path: Path) -> None:
    """PNG and SVG, without a display; the word simulated is in it."""
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    plot.draw(rehearsal(fits=True), str(png))
    plot.draw(rehearsal(fits=False), str(svg))
    assert png.read_bytes().startswith(b"\x89PNG")
    root = ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    assert "simulated" in svg.read_text(encoding="utf-8")


def test_the_whole_report() -> None:
    """Simulated is said, the suggestion was measured, and the profile's command can be pasted."""
    done = rehearsal(fits=False)
    lines = [title(done), headline(done)]
    for section in (*sections(done), *advice_section(done)):
        rows = section.table.rows if section.table is not None else ()
        lines += ["", section.heading, *section.lines, *(" | ".join(row) for row in rows)]
    golden.check(Path(__file__).with_name("report.txt"), "\n".join(lines) + "\n")
    document = plain(document_of(done))
    assert document["simulated"] is True
    assert document["gpus"][0]["head_room_bytes"] == 3 * MIB
