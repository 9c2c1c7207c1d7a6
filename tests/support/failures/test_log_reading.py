"""A log's lines come to those who watch for their words: all of them, once, in order, numbered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuconf.commands.explain import explain, explain_chunks
from gpuconf.support.failures.log.stream import ENOUGH_OF_A_SHAPE, LogReader
from gpuconf.support.failures.log.watchers import LogLine

LOGS = Path(__file__).parents[2] / "commands" / "explain" / "simulated" / "logs"
MANY = settings(suppress_health_check=list(HealthCheck))
MIB = 1 << 20


class Recorder:
    """Watches for words, wants ``behind`` lines behind each line seen, and keeps all."""

    def __init__(
        self, *phrases: str, parts: Sequence[str] = (), keeps: Sequence[str] = (), behind: int = 0
    ) -> None:
        self.phrases: Sequence[str] = phrases
        self.parts: Sequence[str] = parts
        self.seen: list[LogLine] = []
        self.followed: list[LogLine] = []
        self.kept: list[tuple[int, bytes]] = []
        self.wants = 0
        self._behind = behind
        self._keeps = keeps

    def see(self, line: LogLine) -> None:
        """Record a line."""
        self.seen.append(line)
        self.wants = self._behind

    def follow(self, line: LogLine) -> None:
        """Record a line behind another."""
        self.followed.append(line)
        self.wants -= 1

    def read(self, chunks: Iterable[bytes] | bytes) -> LogReader:
        """Read a log for this one alone."""
        kept = self.kept

        class Kept:
            phrases = self._keeps

            def keep(self, number: int, line: bytes) -> None:
                kept.append((number, line))

        reader = LogReader([self], [self], Kept())
        reader.read([chunks] if isinstance(chunks, bytes) else chunks)
        return reader

    @property
    def numbers(self) -> list[int]:
        """The numbers of the lines seen."""
        return [line.number for line in self.seen]


@pytest.mark.parametrize(
    ("line", "is_seen"),
    [
        ("CUDA_ERROR_OUT_OF_MEMORY: x", True),
        ("cuda error 2 (out of memory)", True),
        ("CUDA error: out-of-memory!", True),
        ("  [7] Cuda Error - Out Of Memory", True),
        ("CUDA error: out of memoryless", False),
        ("BARRACUDA error: out of memory", False),
        ("CUDA error: it is out of memory", False),
        ("out of memory: CUDA error", False),
        ("CUDA error: out", False),
    ],
)
def test_phrases_are_words_next_to_each_other(line: str, is_seen: bool) -> None:
    """Case, digits and punctuation do not count; parts of words, gaps, other orders do not do."""
    recorder = Recorder("CUDA error: out of memory")
    recorder.read(f"first\n{line}\nlast\n".encode())
    assert recorder.seen == ([LogLine(2, line)] if is_seen else [])


def test_parts_are_found_within_words() -> None:
    """``error`` as a part is seen in ``ResourceExhaustedError``."""
    recorder = Recorder(parts=["error"])
    recorder.read(b"ResourceExhaustedError: x\nterror\nerr or\n")
    assert recorder.numbers == [1, 2]


def test_keeper_gets_every_line() -> None:
    """What is kept is neither limited nor decoded, also behind more than is shown."""
    recorder = Recorder("alarm", keeps=["of size"])
    head = "".join(f"alarm {_words(n)}\n" for n in range(30_000)).encode()
    recorder.read(head + b"".join(b"Free at %x of size %d \xff\n" % (n, n) for n in range(3000)))
    assert [number for number, _ in recorder.kept] == [*range(30_001, 33_001)]
    assert recorder.kept[-1][1].endswith(b"of size 2999 \xff")


def test_followers_get_the_lines_behind() -> None:
    """As many as are wanted, whatever is in them, also across chunks; then no more."""
    recorder = Recorder("alarm", behind=3)
    recorder.read(f"0\nalarm\na\n\n2\n{'z' * MIB}\nb\nalarm\nc".encode())
    assert recorder.numbers == [2, 8]
    assert recorder.followed == [LogLine(3, "a"), LogLine(4, ""), LogLine(5, "2"), LogLine(9, "c")]


def test_line_ends_of_windows_are_no_lines() -> None:
    """Those who follow get no empty lines between the lines."""
    recorder = Recorder("alarm", behind=2)
    recorder.read(b"alarm\r\r\na\r\r\nb\r\r\n")
    assert recorder.followed == [LogLine(2, "a"), LogLine(3, "b")]


@pytest.mark.parametrize(
    ("log", "number", "count"),
    [
        (b"a\nb\nalarm\n", 3, 3),
        (b"a\r\nb\r\nalarm\r\n", 3, 3),
        (b"a\r\r\nb\r\r\nalarm\r\r\n", 3, 3),
        (b"a\n\n\nalarm", 4, 4),
        (b"1/9\r2/9\r3/9\nalarm\n", 2, 2),
        (b"1/9\r2/9\ralarm\r4/9\nb\n", 1, 2),
        (b"1/9\x08\x08\x08\x08\x082/9\x08\x08\x08alarm\nb\n", 1, 2),
        (b"\x1b[2K\ra\n\x1b[31malarm\x1b[0m\n", 2, 2),
        (b"x" * 5000 + b" alarm\nb", 1, 2),
        (b"x " * MIB + b"alarm\nb\n", 1, 2),
        (b"x " * MIB + b"\nalarm\n", 2, 2),
        (b"x" * (3 * MIB) + b" alarm", 1, 1),
        (b"\n" * 999 + b"1/9\r" * MIB + b"\nb\n\nalarm\n", 1003, 1003),
    ],
)
def test_numbers_are_an_editors(log: bytes, number: int, count: int) -> None:
    """A newline ends a line, and nothing else does; a line of any length is one line."""
    recorder = Recorder("alarm")
    assert recorder.read(log).line_count == count
    assert recorder.numbers == [number]
    assert recorder.seen[0].text.split()[-1] == "alarm"


def test_long_lines_come_in_pieces() -> None:
    """No piece is longer than 16 KiB, and none is lost."""
    recorder = Recorder("alarm")
    recorder.read(b"alarm " * 20_000)
    assert max(len(line.text) for line in recorder.seen) <= 16 * 1024
    assert set(recorder.numbers) == {1}


@pytest.mark.parametrize("length", [40_000, 2 * MIB, 5 * MIB])
def test_no_word_is_cut(length: int) -> None:
    """Neither where a line is cut into pieces nor where it is read in parts."""
    recorder = Recorder(keeps=["alarmbell"])
    count = length // 11
    recorder.read(b"alarmbell, " * count)
    assert sum(line.count(b"alarmbell") for _, line in recorder.kept) == count


@pytest.mark.parametrize("padding", [0, 5000, 2 * MIB])
def test_lines_packed_into_json_are_read_one_by_one(padding: int) -> None:
    """The log of a container, which is a line of JSON, whatever its length."""
    text = json.dumps({"log": "a\n" + " pad" * (padding // 4) + "\nalarm: x\nb\n"})
    recorder = Recorder("alarm")
    recorder.read(f"first\n{text}\nlast\n".encode())
    assert recorder.seen == [LogLine(2, "alarm: x")]


def test_paths_of_windows_are_no_packed_lines() -> None:
    r"""The ``\n`` in ``C:\new`` is not an end of a line."""
    recorder = Recorder("alarm")
    recorder.read(b"C:\\new\\nets\\net.py alarm\n")
    assert recorder.seen == [LogLine(1, r"C:\new\nets\net.py alarm")]


def test_of_one_shape_the_first_and_the_last_are_seen() -> None:
    """A hundred lines that differ in numbers, and the last two; another shape is its own."""
    recorder = Recorder("alarm")
    recorder.read(b"".join(b"alarm %d\n" % n for n in range(1, 5001)) + b"one more alarm\nend\n")
    assert recorder.numbers == [*range(1, ENOUGH_OF_A_SHAPE + 1), 5001, 4999, 5000]


def test_last_lines_come_in_order() -> None:
    """What was left for the end comes by number, whichever shape it is of."""
    recorder = Recorder("alarm", "bell")
    lines = [b"alarm %d\nbell %d\nAlarm, %d!\n" % (n, n, n) for n in range(500)]
    recorder.read(b"".join(lines) + b"alarm 500\n")
    assert recorder.numbers[3 * ENOUGH_OF_A_SHAPE :] == [1496, 1497, 1498, 1499, 1500, 1501]


@pytest.mark.slow
@pytest.mark.parametrize("count", [160, 20_000])
def test_last_lines_of_one_number_come_in_order(count: int) -> None:
    """All that a progress bar wrote over has one number; shape by shape, in order, in every run."""
    recorder = Recorder("alarm")
    bars = [f"alarm {_words(n % 16)} {n}" for n in range(16 * count)]
    recorder.read("\r".join(bars).encode())
    last = [line.text for line in recorder.seen[16 * ENOUGH_OF_A_SHAPE :]]
    assert last == [bar for n in range(16) for bar in (bars[n - 32], bars[n - 16])]


def test_shapes_are_not_forgotten_for_others() -> None:
    """However many other lines there are, what was seen of a shape is still known."""
    recorder = Recorder("alarm")
    alarms = "".join(f"alarm {n}\n" for n in range(200))
    others = "".join(f"{_words(n)}\n" for n in range(70_000))
    recorder.read(f"{alarms}{others}".encode())
    assert recorder.numbers == [*range(1, 101), 199, 200]
    recorder = Recorder("alarm")
    recorder.read(f"{alarms}{others}{alarms}".encode())
    assert recorder.numbers == [*range(1, 101), 70_399, 70_400]


def _words(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:06}")


@pytest.mark.slow
def test_lines_shown_are_limited() -> None:
    """Of lines that all differ, the first twenty thousand are seen, and the last ten thousand."""
    recorder = Recorder("alarm")
    recorder.read(f"alarm {_words(n)}\n".encode() for n in range(60_000))
    assert recorder.numbers == [*range(1, 20_001), *range(50_001, 60_001)]


@pytest.mark.slow
@pytest.mark.nightly
def test_long_lines_count_as_several() -> None:
    """What is shown is limited in bytes as well."""
    recorder = Recorder("alarm")
    recorder.read(f"alarm {_words(n)} {'x' * 4000}\n".encode() for n in range(20_000))
    assert sum(len(line.text) for line in recorder.seen) < 20 * MIB
    assert recorder.numbers[-1] == 20_000


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n  \n--\n", "\n123\n", "\n$ \r\n"])
def test_last_line_with_a_word(end: str) -> None:
    """Empty lines, figures and a prompt behind the last words are not the last of a log."""
    assert Recorder("alarm").read(f"first\nlast words{end}".encode()).last == LogLine(
        2, "last words"
    )


@pytest.mark.parametrize("log", [b"", b"\n", b"\r", b"\x1b[0m", b"\xef\xbb\xbf"])
def test_nothing_is_read_from_nothing(log: bytes) -> None:
    """Logs silently."""
    recorder = Recorder("alarm", parts=["a"])
    assert recorder.read(log).last == LogLine(0, "")
    assert recorder.seen == []


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """``data`` in pieces; some may be empty."""
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


@pytest.mark.slow
@MANY
@given(
    st.sampled_from(["oom-fit", "fragmentation", "whole-array-fit", "startup-fraction", "healthy"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]),
    st.lists(st.integers(0, 1 << 20), max_size=12),
)
def test_cuts_make_no_difference_to_a_diagnosis(
    name: str, encoding: str, places: list[int]
) -> None:
    """A log may come in any pieces: cut within a word, a character, or half of a UTF-16 unit."""
    text = "× " + (LOGS / f"{name}.log").read_text("utf-8") * 3
    data = text.encode(encoding)
    assert explain_chunks(cut(data, places)) == explain(text.encode())


PARTS = ["alarm", " ", "\n", "\r", "\r\n", "\x08", "×", "█\U0001f600", "\\n", "{", "\x1b[31m", "7",
         "a" * 4095, "b " * 9000, "\n" * 99, "1/9\r" * 30_000, "z" * (MIB + 3)]  # fmt: skip


@pytest.mark.slow
@MANY
@given(st.lists(st.sampled_from(PARTS), max_size=25), st.lists(st.integers(0, 9 * MIB), max_size=9))
def test_cuts_make_no_difference_to_lines(parts: list[str], places: list[int]) -> None:
    """All that is seen, followed and kept is the same, with its numbers, however a log is cut."""
    data = "".join(parts).encode()
    whole, pieces = (Recorder("alarm", keeps=["alarm"], behind=4) for _ in range(2))
    one, other = whole.read(data), pieces.read(cut(data, places))
    assert (one.line_count, one.last) == (other.line_count, other.last)
    assert (whole.seen, whole.followed, whole.kept) == (pieces.seen, pieces.followed, pieces.kept)
    assert one.line_count <= data.count(b"\n") + 1


BARS = ["1/9 alarm 7\r" * 20_000, "1/9 bar\b\b\b\b\b\b" * 20_000, "\x1b[1m1/9\x1b[0m a\r" * 15_000,
        "1/9\b\b\b\r" * 20_000, "1/9 alarm\r\n" * 9000, "1/9\r\r\n" * 9000,
        "×█ 2/9\n" * 9000]  # fmt: skip
BITS = ["alarm", "\r", "\n", "\b", "\r\n", "\r\r\n", "a" * 4095, "b "]


@pytest.mark.slow
@MANY
@given(
    st.lists(st.sampled_from([*BARS, *BITS]), max_size=6),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]),
    st.integers(0, 1 << 17),
)
def test_place_in_a_file_makes_no_difference(parts: list[str], encoding: str, shift: int) -> None:
    """The reader's own cuts fall within bars, backspaces, a \\r\\n: all lines are the same."""
    one, other = (Recorder("alarm", keeps=["alarm"], behind=1 << 60) for _ in range(2))
    text = f"alarm\n{''.join(parts)}".encode(encoding)
    pad = ("7" * shift + "\n").encode(encoding)
    first, later = one.read("\n".encode(encoding) + text), other.read(pad + text)
    assert (first.line_count, first.last) == (later.line_count, later.last)
    assert (one.seen, one.followed, one.kept) == (other.seen, other.followed, other.kept)


def test_single_bytes_are_read() -> None:
    """The smallest pieces there are."""
    data = (LOGS / "oom-eager.log").read_bytes()
    assert explain_chunks(data[n : n + 1] for n in range(len(data))) == explain(data)
