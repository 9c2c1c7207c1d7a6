"""A log says the same in whatever encoding it was saved."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.commands.explain import Diagnosis, explain
from gpuconf.support.failures.log.encodings import decoded, whole_lines

pytestmark = pytest.mark.slow  # tries hundreds of documents

LOGS = sorted((Path(__file__).parents[2] / "commands/explain/simulated/logs").glob("*.log"))
OF_WINDOWS = "Füße ".encode("cp1252")


def _utf16(encoding: str, mark: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda log: mark + log.decode().encode(encoding)


def _colored(log: bytes) -> bytes:
    """Each word in a color of its own, and a terminal's title, as IPython and tmux write."""
    lines = (
        b"\x1b]0;train\x07"
        + b" ".join(b"\x1b[0;31m" + word + b"\x1b[0m" for word in line.split(b" "))
        for line in log.split(b"\n")
    )
    return b"\n".join(lines)


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "UTF-8 with a mark": lambda log: codecs.BOM_UTF8 + log,
    "UTF-16 LE with a mark": _utf16("utf-16-le", codecs.BOM_UTF16_LE),
    "UTF-16 BE with a mark": _utf16("utf-16-be", codecs.BOM_UTF16_BE),
    "UTF-16 LE": _utf16("utf-16-le"),
    "UTF-16 BE": _utf16("utf-16-be"),
    "Windows' line ends": lambda log: log.replace(b"\n", b"\r\n"),
    "Windows' line ends, twice": lambda log: log.replace(b"\n", b"\r\r\n"),
    "PowerShell": lambda log: log.decode().replace("\n", "\r\n").encode("utf-16"),
    "Latin-1": lambda log: log.decode().encode("latin-1", "replace") + OF_WINDOWS + b"\n",
    "colors": _colored,
    "without a last newline": lambda log: log.rstrip(b"\n"),
}  # fmt: skip


def conclusion(diagnosis: Diagnosis) -> tuple[object, ...]:
    """What must be the same: all but the text of the evidence."""
    lines = [(each.line, each.lines, each.means) for each in diagnosis.evidence]
    return (diagnosis.cause, diagnosis.severity, diagnosis.also, diagnosis.facts, lines,
            diagnosis.proposals)  # fmt: skip


def test_encodings_tell_the_same() -> None:
    """Cause, severity, line numbers, facts and proposals are those of the log in UTF-8.

    Also of one short line, which is enough to tell the encoding.
    """
    logs = {log.stem: log.read_bytes() for log in LOGS} | {"short": b"MemoryError\n"}
    assert {"oom-fit", "fragmentation", "healthy", "startup-fraction"} <= set(logs)
    different = []
    for name, plain in logs.items():
        expected = conclusion(explain(plain))
        for how, encode in ENCODINGS.items():
            if conclusion(explain(encode(plain))) != expected:
                different.append((name, how))
    assert different == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("naïve ×2".encode(), "naïve ×2"),
        ("naïve ×2".encode("cp1252"), "naïve ×2"),
        (b"quoted \x93so\x94", "quoted “so”"),
        (b"bad \x81 byte", "bad \ufffd byte"),  # cp1252 has no such character
        (b"cut \xe2\x96", "cut â–"),
    ],
)
def test_lines_are_decoded_one_by_one(line: bytes, text: str) -> None:
    """A line is UTF-8 or, if it is not, as Western Windows writes; nothing of it is lost."""
    assert decoded(line) == text


def test_a_bad_byte_spoils_no_other_line() -> None:
    """UTF-8 stays UTF-8 around a line that is none."""
    text = b"".join(whole_lines(["é\n".encode() + b"\xe9\n" + "é\n".encode()]))
    assert [decoded(line) for line in text.split()] == ["é", "é", "é"]


def test_zeros_alone_are_no_utf16() -> None:
    """A log that was emptied while its program wrote on begins with zeros, up to where it was."""
    log = b"OOM when allocating tensor with shape[8,8] and type float\nMemoryError\n" * 9
    plain, sparse = explain(log), explain(b"\0" * 9999 + log)
    assert (plain.cause, plain.severity) == (sparse.cause, sparse.severity)
    assert plain.cause != "not-a-gpu-problem"


def test_utf16_of_other_scripts() -> None:
    """Chinese words between ASCII ones do not hide that a log is UTF-16."""
    log = "训练失败 OOM when allocating tensor with shape[10000,32] and type float 内存不足\n" * 3
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-16"):
        request = explain(log.encode(encoding)).facts.request
        assert request.tensor is not None, encoding
        assert request.tensor.shape == (10000, 32)


def test_text_with_a_mark_of_its_own() -> None:
    """A str that was read with its byte order mark says the same as without."""
    text = "\ufeffMemoryError: Unable to allocate 3.00 GiB for an array\n"
    assert conclusion(explain(text)) == conclusion(explain(text[1:]))


CODES = [
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[2K",
    "\x1b[1;38;5;196m",
    "\x1b]8;;http://x\x1b\\",
    "\x1b[?25l",
]


@given(st.lists(st.sampled_from([*CODES, "a", "OOM", " ", "[", "m", "]", "0"]), max_size=30))
def test_terminal_codes_are_taken_out(parts: list[str]) -> None:
    """What is left of a line is what a terminal would show."""
    shown = "".join(part for part in parts if part not in CODES)
    assert b"".join(whole_lines(["".join(parts).encode()])) == shown.encode()
