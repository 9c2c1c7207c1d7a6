"""What the probe's child writes is read back, however much of it there is."""

from __future__ import annotations

import json
import os
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.json_values import plain
from gpuconf.commands.doctor.live.record import LiveRecord, read_record
from gpuconf.commands.doctor.live.recorder import Recorder, StepFailed
from gpuconf.commands.doctor.probe_results import CardMemory, MeasuredHolder, ProbedCard, StepError
from gpuconf.errors import ShortageError

_MEMORY = {"used_bytes": 5, "free_bytes": 6, "own_bytes": None, "current_bytes": 1, "peak_bytes": 2}


def _written() -> str:
    """A record of three steps: one passed, one raised, one not ended."""
    with tempfile.TemporaryFile() as file:
        recorder = Recorder(file.fileno())
        recorder.write("facts", tensorflow="2.21.0", listed=1)
        holders = [{"pid": 7, "name": "Xorg", "used_bytes": 9}, {"name": "nobody"}]
        recorder.write("cards", cards=[{"place": 0, "label": "GPU 0", "holders": holders}])
        with recorder.step("context", [0], lambda places: [dict(_MEMORY) for _ in places]):
            pass
        try:
            with recorder.step("matmul", [0], lambda _: []):
                raise ShortageError("too little", hint="stop one")
        except StepFailed:
            pass
        recorder.write("begin", step="fit", cards=[0])
        return os.pread(file.fileno(), 10**6, 0).decode()


WRITTEN = _written()


def test_what_is_written_is_read() -> None:
    """GPUs, steps with their memory, errors with their hint, and the step that did not end."""
    record = read_record(WRITTEN)
    assert record.cards == (
        ProbedCard(0, "GPU 0", holders=(MeasuredHolder(7, "Xorg", used_bytes=9),)),
    )
    context, matmul, fit = record.steps
    assert context.has_passed
    assert context.before == context.after == (CardMemory(5, 6, None, 1, 2),)
    assert matmul.error == StepError("ShortageError", "too little", "stop one")
    assert not matmul.has_passed
    assert record.unfinished == fit
    assert fit.seconds is None
    assert record.fact("tensorflow") == "2.21.0"
    assert record.fact("keras") is None
    assert not record.is_over


@given(st.integers(0, len(WRITTEN)))
def test_a_record_cut_anywhere_tells_what_was_whole(size: int) -> None:
    """No cut invents a step or loses one that was written whole; a begun one may be unfinished."""
    cut, whole = read_record(WRITTEN[:size]), read_record(WRITTEN)
    every = WRITTEN.splitlines()
    lines = [json.loads(line) for line in WRITTEN[:size].splitlines() if line in every]
    begun = [line["step"] for line in lines if line["event"] == "begin"]
    assert [step.step for step in cut.steps] == begun
    assert {step for step in cut.steps if step.seconds is not None} <= set(whole.steps)
    assert cut.cards in ((), whole.cards)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["step", "cards", "pid", "used_bytes"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
_EVENTS = st.sampled_from(["begin", "end", "cards", "facts", "notes", "skip", "over", "", None])
_FIELDS = (
    *("step", "cards", "seconds", "before", "after", "error", "reason", "detail", "notes"),
    "is_calm",
)


@given(st.lists(st.tuples(_EVENTS, st.dictionaries(st.sampled_from(_FIELDS), _JSON)), max_size=6))
def test_any_json_is_read(lines: list[tuple[object, dict[str, object]]]) -> None:
    """Fields of the wrong kind are unknown; nothing raises, and the types hold."""
    text = "\n".join(json.dumps({**fields, "event": event}) for event, fields in lines)
    record = read_record(text)
    assert isinstance(record, LiveRecord)
    for step in record.steps:
        assert step.seconds is None or 0 <= step.seconds < float("inf")
        json.dumps(plain(step))


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """What is not a line of ours is passed over."""
    assert isinstance(read_record(text), LiveRecord)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"event": "end", "seconds": 1e999}', "NaN"])
def test_odd_json(text: str) -> None:
    """Deep nesting and infinity do not stop the reading."""
    assert all(step.seconds == 0 for step in read_record(text).steps)
