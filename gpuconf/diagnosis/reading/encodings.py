"""Bytes in whatever encoding a log was saved -> chunks of whole lines, ASCII where they can be."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

# A piece without a line's end is cut here, so that a file of one line needs no more memory.
LONGEST_LINE = 1 << 20
_CODES = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor movements
    rb"|\][^\x07\x1b]{0,1024}(?:\x07|\x1b\\)"  # a terminal's title, hyperlinks
    rb"|[@-Z\\^_])"
)
# PowerShell's `>` writes UTF-16; a progress bar goes back by \r, Keras 2's by backspaces.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OVERWRITES = re.compile(rb"\r*\x08[\r\x08]*")
_LINE_ENDS = re.compile(rb"\r+\n")


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """``chunks`` cut anew so that each ends with a line's end, in UTF-8 or an ASCII superset.

    Terminal codes are taken out; what a progress bar writes over is left, behind ``\\r``.
    """
    rest = b""
    for chunk in _as_utf8(chunks):
        whole, end, rest = (rest + chunk).rpartition(b"\n")
        if not end and len(rest) > LONGEST_LINE:
            whole, rest = rest, b""
        if whole or end:
            yield _plain(whole + end)
    if rest:
        yield _plain(rest)


def decoded(line: bytes) -> str:
    """A line as text: UTF-8, else as Western Windows writes; no line is lost for a bad byte."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace")


def _plain(lines: bytes) -> bytes:
    if b"\x1b" in lines:
        lines = _CODES.sub(b"", lines)
    if b"\r" in lines:
        lines = _LINE_ENDS.sub(b"\n", lines)
    if b"\x08" in lines:
        lines = _OVERWRITES.sub(b"\r", lines)
    return lines


def _as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    chunks = iter(chunks)
    first = next(chunks, b"")
    while len(first) < 4:  # too little to tell UTF-16 by
        more = next(chunks, None)
        if more is None:
            break
        first += more
    encoding, skipped = _encoding_of(first)
    if encoding == "utf-8":
        yield first[skipped:]
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    yield decoder.decode(first[skipped:]).encode("utf-8", "replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")


def _encoding_of(start: bytes) -> tuple[str, int]:
    """The encoding and the length of its mark; UTF-16 without a mark is told by its zeros."""
    for bom, encoding in _BOMS:
        if start.startswith(bom):
            return encoding, len(bom)
    sample = start[:4096]
    zeros = sample.count(0)
    if zeros * 3 > len(sample):
        return ("utf-16-le" if sample[1::2].count(0) * 2 > zeros else "utf-16-be"), 0
    return "utf-8", 0
