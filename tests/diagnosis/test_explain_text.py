"""The report for people: short first, everything with verbose, and the tables of memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.diagnosis import Diagnosis, explain
from gpuconf.diagnosis.diagnosis import Proposal
from gpuconf.diagnosis.tables import tables_of
from gpuconf.diagnosis.text import lines_of, styled_lines
from gpuconf.messages.causes import CAUSES, SEVERITIES
from gpuconf.messages.facts.allocations import Allocations, NodeAllocation
from gpuconf.messages.facts.card import LoggedCard, LoggedProcess
from gpuconf.messages.facts.dump import Chunks, Dump, OperationBytes
from gpuconf.messages.reading import Evidence, LogFacts
from gpuconf.units import GIB, MIB

LOGS = sorted(Path(__file__).parent.glob("simulated/logs/*"))


def of_log(name: str) -> Diagnosis:
    """The diagnosis of a log that was made on the simulated card."""
    return explain((Path(__file__).parent / "simulated" / "logs" / name).read_bytes())


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
            "A card",
            8 * GIB,
            holders=(LoggedProcess(42, "python", GIB), LoggedProcess(43, None, MIB)),
        ),
        details={"xid": [31, 13], "allocator_asked_for": "cuda_malloc_async"},
    ),
    proposals=tuple(
        Proposal(f"change {number}", f"reason {number}", "code", f"first {number}\n  second")
        for number in range(1, 6)
    ),
    line_count=30,
)


def test_the_short_report() -> None:
    """The cause, two lines that show it, the facts, three changes, and where to read on."""
    assert lines_of(FULL, source="a.log") == [
        "no room on the card for a tensor (oom-device-tensor): the run failed",
        f"  a.log:12 (3 times)  {'x' * 158} …",
        "      means the cause",
        "  a.log:13  second",
        "      second too",
        "  the card             A card, 8192 MiB",
        "  held by              process 42 (python): 1024 MiB",
        "  held by              process 43: 1 MiB",
        "  xid                  31, 13",
        "  allocator asked for  cuda_malloc_async",
        "  also seen            cuDNN does not work (-v shows the lines)",
        "  harmless             5 warnings hidden (-v shows them)",
        "",
        "what to change",
        *(
            line
            for n in (1, 2, 3)
            for line in (
                f"  {n}. change {n}",
                f"     reason {n}",
                f"         first {n}",
                "           second",
            )
        ),
        "  … and 2 more (-v)",
        "",
        "about this cause: gpuconf docs causes/oom-device-tensor",
    ]


def test_the_long_report() -> None:
    """Every line in full, with what came of it, what is harmless, and every change."""
    text = "\n".join(lines_of(FULL, verbose=True))
    for said in (
        "line 1  says little",
        "line 12 (3 times)  " + "x" * 400,
        "  follow-up and unrelated errors:\n  line 20  came\n      a consequence",
        "  harmless:\n    line 2, 4 in all: harmless noise\n    line 3, 1 in all: more",
        "  5. change 5",
    ):
        assert said in text
    assert "(-v" not in text


def test_a_line_that_says_little_is_better_than_none() -> None:
    """Where no other shows the cause."""
    only = FULL._replace(evidence=FULL.evidence[:1])
    assert "  line 1  says little" in lines_of(only)


def test_one_harmless_line_is_one() -> None:
    """English, for the commonest of numbers."""
    told = lines_of(FULL._replace(notes=FULL.notes[1:]))
    assert "  harmless             1 warning hidden (-v shows it)" in told


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
            "means the cause (oom-device-tensor): the run went on",
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


def test_a_tensor_is_told_with_its_sum() -> None:
    """Shape, type, bytes, how they come about, and what looks like the batch."""
    text = "\n".join(lines_of(of_log("oom-eager.log")))
    assert "  the tensor           [8, 256, 256, 512] float32 = 1024 MiB\n" in text
    assert f"{' ' * 23}8 × 256 × 256 × 512 × 4 B = 1073741824 B\n" in text
    assert "the first dimension looks like the batch: 8\n" in text


def test_fragmentation_is_told_as_an_inequality() -> None:
    """Free in all, asked for, and the largest free chunk, in that order."""
    text = "\n".join(lines_of(of_log("fragmentation.log")))
    assert "576 MiB free ≥ 192 MiB asked > the largest free chunk, 128 MiB" in text


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


def test_tables_of_a_report() -> None:
    """Layers with their nodes, then the chunks in use and the free ones."""
    layers, used, free = tables_of(of_log("oom-session-report.log"))
    assert layers.title == "held by layer, 1350 MiB in all, of GPU_0_bfc"
    assert layers.rows[:3] == [
        ("conv1", "900 MiB", ""),
        ("", "450 MiB", "conv1/Conv2D"),
        ("", "450 MiB", "conv1/BiasAdd"),
    ]
    assert used.rows[0] == ("450 MiB", "3", "1350 MiB")
    assert [row[0] for row in free.rows] == ["165 MiB", "21.1 MiB"]


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


def test_most_logs_have_no_table() -> None:
    """Only those with a dump or the report have one."""
    assert list(tables_of(of_log("healthy.log"))) == []
