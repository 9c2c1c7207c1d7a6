"""``gpuconf explain``: a log's bytes or an exception -> Diagnosis."""

from __future__ import annotations

from collections.abc import Iterable

from gpuconf.commands.explain.diagnosis import Diagnosis
from gpuconf.commands.explain.memory_map import looks_like_memory_map, read_memory_map
from gpuconf.commands.explain.proposals import proposals_for
from gpuconf.support.failures import Evidence, LogFacts, Reading, read, read_chunks


def explain(exc_or_text: BaseException | str | bytes) -> Diagnosis:
    """Diagnose a failed run from an exception or from its output.

    An exception is read with its traceback and its causes; no reference to it is kept.  Text may be
    a log of any length, a notebook's JSON, or the bytes of either.  Raises TypeError for anything
    else.
    """
    if not isinstance(exc_or_text, BaseException | str | bytes):
        given = type(exc_or_text).__name__
        raise TypeError(
            f"explain() takes an exception or a log's text, not {given}; of a file, "
            'give its bytes: open("train.log", "rb").read()'
        )
    if isinstance(exc_or_text, str):
        exc_or_text = exc_or_text.encode("utf-8", "replace")
    if isinstance(exc_or_text, bytes) and looks_like_memory_map(exc_or_text):
        return _diagnosis(_of_memory_map(exc_or_text))
    return _diagnosis(read(exc_or_text))


def explain_chunks(chunks: Iterable[bytes]) -> Diagnosis:
    """`explain` for a log in chunks; only one chunk is in memory at a time."""
    return _diagnosis(read_chunks(chunks))


def _diagnosis(reading: Reading) -> Diagnosis:
    proposals = proposals_for(reading.cause, reading.severity, reading.facts)
    return Diagnosis(**reading._asdict(), proposals=proposals)


def _of_memory_map(data: bytes) -> Reading:
    """The reading of a TF_BFC_MEMORY_DUMP file, which TensorFlow writes if an allocation fails."""
    facts = LogFacts(dump=read_memory_map(data))
    means = "TensorFlow writes this file when its allocator has refused a tensor"
    evidence = Evidence(1, f"dump of {facts.dump.allocator if facts.dump else ''}", means, None, 1)
    return Reading("oom-device-tensor", "failure", evidence=(evidence,), facts=facts)
