"""``gpuconf explain``: a log's bytes or an exception -> Diagnosis."""

from __future__ import annotations

from collections.abc import Iterable

from gpuconf.commands.explain.diagnosis import Diagnosis
from gpuconf.support.failures import Reading, read, read_chunks
from gpuconf.support.failures.proposals import proposals_for


def explain(exc_or_text: BaseException | str | bytes) -> Diagnosis:
    """Diagnose a failed run from an exception or from its output.

    An exception is read with its traceback and its causes; no reference to it is kept.  Text may be
    a log of any length, a notebook's JSON, or the bytes of either.  Raises TypeError for anything
    else.
    """
    if not isinstance(exc_or_text, BaseException | str | bytes):
        given = type(exc_or_text).__name__
        raise TypeError(
            f"explain() accepts an exception or the text of a log, not {given}; for a file, "
            'pass its contents as bytes: open("train.log", "rb").read()'
        )
    return _diagnosis(read(exc_or_text))


def explain_chunks(chunks: Iterable[bytes]) -> Diagnosis:
    """`explain` for a log in chunks; only one chunk is in memory at a time."""
    return _diagnosis(read_chunks(chunks))


def _diagnosis(reading: Reading) -> Diagnosis:
    proposals = proposals_for(reading.cause, reading.severity, reading.facts)
    return Diagnosis(**reading._asdict(), proposals=proposals)
