"""A log's bytes, in any encoding -> chunks of whole lines, ASCII where possible."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import chain

# Longer lines are read in parts, so that a file with a single line needs no more memory.
LONGEST_LINE = 1 << 20
_BLOCK = 1 << 17
# The encoding is detected from this many bytes.
_SAMPLE = 4096
_CODES = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors, cursor movements
    rb"|\][^\x07\x1b]{0,1024}(?:\x07|\x1b\\)"  # a terminal's title, hyperlinks
    rb"|[@-Z\\^_])"
)
# Escape codes in JSON, such as a notebook that is too large or too broken to parse.
_ESCAPED_CODES = re.compile(rb"\\u001[bB]\[[0-?]{0,64}[ -/]{0,8}[@-~]")
# PowerShell's `>` writes UTF-16.  Progress bars move back with \r, Keras 2 with backspaces.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OVERWRITES = re.compile(rb"[\r\x08]{1,999}")


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split ``chunks`` again so that each ends at a line end, in UTF-8 or a superset of ASCII.

    If one does not, the next chunk continues the line: with ``\\r`` and the next state of a
    progress bar, or with another part of a line longer than `LONGEST_LINE`.  Terminal codes are
    removed; overwritten states of a progress bar are kept, before ``\\r``.
    """
    held: list[bytes] = []  # the parts of an unfinished line
    for block in _as_utf8(_blocks(chunks)):
        cut = 1 + block.rfind(b"\n") or _before_a_bar(block)
        if cut:
            yield _plain(b"".join([*held, block[:cut]]))
            held = []
        held.append(block[cut:])
        if sum(map(len, held)) > LONGEST_LINE:
            line = b"".join(held)
            cut = 1 + line.rfind(b" ") or len(line)
            yield _plain(line[:cut])
            held = [line[cut:]]
    yield _plain(b"".join(held))


def _before_a_bar(block: bytes) -> int:
    """The position where the last progress bar of ``block`` goes back to be redrawn; 0 if none."""
    end = 1 + max(block.rfind(b"\r"), block.rfind(b"\x08"))
    return len(block[:end].rstrip(b"\r\x08"))


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of equal size, so that the chunk sizes make no difference."""
    held = bytearray()
    for chunk in chunks:
        for start in range(0, len(chunk), _BLOCK):
            held += chunk[start : start + _BLOCK]
            if len(held) >= _BLOCK:
                yield bytes(held[:_BLOCK])
                del held[:_BLOCK]
    yield bytes(held)


def decoded(line: bytes) -> str:
    """A line as text: UTF-8, otherwise Windows-1252; a bad byte never causes a line to be lost."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace")


def _plain(lines: bytes) -> bytes:
    if b"\x1b" in lines:
        lines = _CODES.sub(b"", lines)
    if b"\\" in lines and b"\\u001" in lines:  # searching for one byte is much faster than for five
        lines = _ESCAPED_CODES.sub(b"", lines)
    if b"\x08" in lines:
        lines = _OVERWRITES.sub(b"\r", lines)
    if b"\r" in lines and b"\r\n" in lines:
        # Windows writes \r\r\n for a line that already ended in \r\n.
        lines = lines.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n")
    return lines


def _as_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    start = next(blocks, b"")
    encoding, skipped = _encoding_of(start[:_SAMPLE])
    if encoding == "utf-8":
        yield start[skipped:]
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in chain([start[skipped:]], blocks):
        yield decoder.decode(block).encode("utf-8", "replace")


def _encoding_of(sample: bytes) -> tuple[str, int]:
    """The encoding and the length of its BOM; UTF-16 without a BOM is recognized by its zero bytes.

    Every other byte is zero.  A file truncated while it was being written is all zeros.
    """
    for bom, encoding in _BOMS:
        if sample.startswith(bom):
            return encoding, len(bom)
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if (even + odd) * 3 <= len(sample):
        return "utf-8", 0
    if odd > 4 * even:
        return "utf-16-le", 0
    return ("utf-16-be" if even > 4 * odd else "utf-8"), 0
