"""The report for people: short first, everything with verbose, and the tables of memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.explain import Diagnosis, explain
from gpuconf.commands.explain.tables import tables_of
from gpuconf.commands.explain.text import lines_of, styled_lines
from gpuconf.support.failures.causes import CAUSES, SEVERITIES
from gpuconf.support.failures.facts.allocations import Allocations, NodeAllocation
from gpuconf.support.failures.facts.card import LoggedCard, LoggedProcess
from gpuconf.support.failures.facts.dump import Chunks, Dump, OperationBytes
from gpuconf.support.failures.proposals.proposal import Proposal
from gpuconf.support.failures.reading import Evidence, LogFacts
from tests import golden

FOLDER = Path(__file__).parent
REPORTS = FOLDER / "reports"
LOGS = sorted(FOLDER.glob("simulated/logs/*"))
IN_FULL = (
    *(
        "cudnn-handle",
        "fragmentation",
        "full-checkpoints",
        "healthy",
        "ladder-healthy",
        "late-limit",
    ),
    *("oom-eager", "oom-fit", "oom-session-report", "startup-neighbor", "whole-array-evaluate"),
)


def diagnosis_of(name: str) -> Diagnosis:
    """The diagnosis of a log that was made on the simulated GPU."""
    return explain((FOLDER / "simulated" / "logs" / name).read_bytes())


FULL = Diagnosis(
    "oom-device-tensor",
    "failure",
    evidence=(
        Evidence(1, "says little", "generic", "oom-device-tensor", 1, generic=True),
        Evidence(12, "x" * 400, "means the cause", "oom-device-tensor", 3),
        Evidence(13, "second", "second too", "oom-device-tensor", 1),
        Evidence(14, "third", "third too", "oom-device-tensor", 1),
    ),
    consequences=(Evidence(20, "came", "a consequence", "cudnn-internal", 1),),
    notes=(Evidence(2, "noise", "harmless noise", None, 4), Evidence(3, "b", "more", None, 1)),
    facts=LogFacts(
        card=LoggedCard(
            "A GPU",
            8 * GIB,
            holders=(LoggedProcess(42, "python", GIB), LoggedProcess(43, None, MIB)),
        ),
        details={"xid": [31, 13], "allocator_requested": "cuda_malloc_async"},
    ),
    proposals=tuple(
        Proposal(f"change {number}", f"reason {number}", "code", f"first {number}\n  second")
        for number in range(1, 6)
    ),
    line_count=30,
)


def test_the_report_of_a_full_diagnosis() -> None:
    """Short: the cause, two lines that show it, the facts, three changes, and where to read on.

    Long: every line in full, with what came of it, what is harmless, and every change.
    """
    golden.check(REPORTS / "short.txt", "\n".join(lines_of(FULL, source="a.log")) + "\n")
    golden.check(REPORTS / "long.txt", "\n".join(lines_of(FULL, verbose=True)) + "\n")


def report_of(name: str) -> str:
    """What is printed of a log, all of it, with its tables."""
    found = diagnosis_of(name)
    tables = [
        "\n".join(
            ["", each.title, *(" | ".join(row).rstrip() for row in (each.columns, *each.rows))]
        )
        for each in tables_of(found)
    ]
    return "\n".join([*lines_of(found, verbose=True, source=name), *tables, ""])


@pytest.mark.parametrize("name", IN_FULL)
def test_the_report_of_a_log(name: str) -> None:
    """As reports/ has it: sums, inequalities, proposals with their reasons, tables of memory."""
    golden.check(REPORTS / f"{name}.txt", report_of(f"{name}.log"))


def test_a_line_that_says_little_is_better_than_none() -> None:
    """Where no other shows the cause."""
    only = FULL._replace(evidence=FULL.evidence[:1])
    assert "  line 1  says little" in lines_of(only)


def test_one_harmless_line_is_one() -> None:
    """English, for the most common of numbers."""
    lines = lines_of(FULL._replace(notes=FULL.notes[1:]))
    assert "  harmless             1 warning hidden (-v shows it)" in lines


@pytest.mark.parametrize(
    ("diagnosis", "headline"),
    [
        (explain(""), "no known GPU problem (not-a-gpu-problem): the log is empty"),
        (explain("a\nb\n"), "no known GPU problem (not-a-gpu-problem) in 2 lines"),
        (
            explain("KeyError: 'x'"),
            "no known GPU problem (not-a-gpu-problem): the run ended with KeyError: 'x'",
        ),
        (
            FULL._replace(severity="warning-only"),
            "means the cause (oom-device-tensor): the run continued",
        ),
    ],
)
def test_the_headline(diagnosis: Diagnosis, headline: str) -> None:
    """The cause for people, its id, and how the run ended, in one line."""
    assert lines_of(diagnosis)[0] == headline


def test_every_severity_and_cause_has_words() -> None:
    """And only a failure is red."""
    for cause in CAUSES:
        for severity, ending in SEVERITIES.items():
            line = next(styled_lines(FULL._replace(cause=cause, severity=severity)))
            assert CAUSES[cause].title in line.text or severity == "warning-only"
            assert line.text.endswith(ending) or cause == "not-a-gpu-problem"
            assert ("red" in line.style) == (severity == "failure")


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_logs_are_told(log: Path) -> None:
    """No report says None, True or a Python list's quotes; long or short, it is not empty."""
    diagnosis = explain(log.read_bytes())
    for verbose in (False, True):
        lines = lines_of(diagnosis, verbose=verbose, source=log.name)
        labels = [line for line in lines if line.startswith("  ") and line[2:3].isalpha()]
        assert not [line for line in labels if line.endswith((" None", "[]", "{}"))]
        assert lines[0]
    assert str(diagnosis).splitlines() == lines_of(diagnosis)


@given(st.text(max_size=60))
def test_no_line_of_a_log_can_move_the_cursor(text: str) -> None:
    """What comes from the log has no control characters, nor more lines than it should."""
    spoiled = FULL._replace(
        evidence=(Evidence(1, text, "means", "oom-device-tensor", 1),),
        facts=LogFacts(exception=text, details={"event": text}, card=LoggedCard(text)),
    )
    plain = FULL._replace(
        evidence=(Evidence(1, "x", "means", "oom-device-tensor", 1),),
        facts=LogFacts(exception="x", details={"event": "x"}, card=LoggedCard("x")),
    )
    lines = lines_of(spoiled, verbose=True)
    assert not [char for line in lines for char in line if ord(char) < 32 or 127 <= ord(char) < 160]
    assert len(lines) <= len(lines_of(plain, verbose=True))


def test_long_tables_are_cut_and_say_so() -> None:
    """Twenty rows, and one for the others with their sum; every row has every column."""
    many = tuple(Chunks(number * MIB, 1) for number in range(1, 31))
    dump = Dump(
        1,
        in_use=many,
        free_chunks=tuple(range(100, 130)),
        by_operation=tuple(OperationBytes(f"op{number}", MIB) for number in range(30)),
    )
    nodes = tuple(NodeAllocation(f"layer{number}", MIB) for number in range(30))
    table = Allocations(1, "GPU:0", "GPU_0_bfc", nodes, 7 * MIB)
    tables = list(tables_of(FULL._replace(facts=LogFacts(dump=dump, allocations=table))))
    for each in tables:
        assert len(each.rows) <= 21
        assert {len(row) for row in each.rows} == {len(each.columns)}
    layers, operations, used, free = tables
    assert layers.rows[-1] == ("(smaller ones)", "17 MiB", "")
    assert operations.rows[-1] == ("(others)", "10 MiB")
    assert used.rows[-1] == ("(others)", "10", "55 MiB")
    assert free.rows[-1] == ("(10 smaller ones)",)
