"""What comes of measured steps: which batches are measured, and how an estimate is corrected."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.estimate.calibration import (
    CardProbe,
    MeasuredPeak,
    calibrated,
    correction_by,
    probed_batches,
)
from gpuconf.commands.estimate.memory_estimate import GPU, SIMULATED_CARD, TRACED
from gpuconf.commands.estimate.probe.measuring import ProbeRun, refusal_of
from gpuconf.commands.estimate.probe.order import MeasurementRecord, Order, ProbeError, read_record
from tests.commands.estimate.estimates import PEAK_BYTES, estimate

Trace = Callable[[int], int]


def line(base_mib: float, per_sample_mib: float) -> Trace:
    """A peak in bytes that grows in a straight line with the batch."""
    return lambda batch: round((base_mib + per_sample_mib * batch) * MIB)


def probe(*measured: tuple[int, int], tier: str = SIMULATED_CARD, first: int = 0) -> CardProbe:
    """A probe of these batches and peaks."""
    return CardProbe(
        tier, "NVIDIA A30", tuple(MeasuredPeak(*each) for each in measured), first or None
    )


@pytest.mark.parametrize(
    ("batch_size", "trace", "expected"),
    [
        (32, line(100, 10), (16, 32)),  # small enough to be measured itself
        (1, line(100, 10), (1, 2)),
        (3, line(100, 10), (1, 3)),
        (256, line(100, 10), (32, 64)),  # 64 take 740 MiB, 128 more than a GiB
        (32, line(400, 100), (2, 4)),
        (32, line(5000, 10), (2, 4)),  # it is the weights: no batch is small
        (100_000, line(0, 0.001), (50_000, 100_000)),
    ],
)
def test_which_batches_are_measured(
    batch_size: int, trace: Trace, expected: tuple[int, int]
) -> None:
    """The batch itself and half of it where a step takes no more than a GiB, else smaller ones."""
    made = estimate(batch_size=batch_size, peak_bytes=trace(batch_size))
    assert probed_batches(made, trace) == expected


def test_the_search_for_small_batches_traces_little() -> None:
    """Batches of many GiB are passed over without a trace, which takes seconds each."""
    traced: list[int] = []

    def trace(batch: int) -> int:
        traced.append(batch)
        return line(100, 100)(batch)

    assert probed_batches(estimate(batch_size=512, peak_bytes=50 * GIB), trace) == (4, 8)
    assert max(traced) <= 16


@given(
    base=st.integers(1, 4000),
    per_sample=st.floats(0.5, 100),
    more=st.floats(-0.3, 0.9),
    base_more=st.integers(-1000, 1000),
    small=st.integers(1, 8),
    batch_size=st.integers(1, 4096),
)
def test_straight_lines(
    *, base: int, per_sample: float, more: float, base_more: int, small: int, batch_size: int
) -> None:
    """Where trace and GPU grow in straight lines, two small batches tell of every other.

    Never too little; and too much only where less was measured than was traced: no larger share
    is taken off than at the batch that showed the least of it.
    """
    trace = line(base, per_sample)
    real = line(base + base_more, per_sample * (1 + more))
    made = estimate(batch_size=batch_size, peak_bytes=trace(batch_size), resident_bytes=0)
    batches = (small, 2 * small)
    found = calibrated(made, probe(*((each, real(each)) for each in batches)), trace).peak_bytes
    ratio = max(real(each) / trace(each) for each in batches)
    tolerance = 2 * batch_size / small + 2  # of rounded bytes
    assert found >= real(batch_size) - tolerance
    assert found <= max(0, real(batch_size), min(1, ratio) * trace(batch_size)) + tolerance


def test_a_measured_batch_is_its_own_truth() -> None:
    """The estimate's own batch was measured: that is the peak, however the other one fared."""
    trace = line(100, 10)
    made = estimate(peak_bytes=trace(32))
    found = calibrated(made, probe((16, 999 * MIB), (32, 500 * MIB)), trace)
    assert found.peak_bytes == 500 * MIB


def test_one_measured_batch() -> None:
    """A model that is built for one batch size has one measurement, and no growth."""
    correction = correction_by(estimate(), [MeasuredPeak(32, PEAK_BYTES + 7)], lambda _: PEAK_BYTES)
    assert correction.of(PEAK_BYTES, 32) == PEAK_BYTES + 7


def bent(batch: int) -> int:
    """The update decides below batch 20, activations above."""
    return max(300 * MIB, line(100, 10)(batch))


@pytest.mark.parametrize(
    ("measured", "expected"), [((250, 250), 0), ((330, 330), 30), ((250, 330), 30)]
)
def test_another_phase_takes_nothing_off(measured: tuple[int, int], expected: int) -> None:
    """Small batches with their peak elsewhere in the step tell of what is there too, at most."""
    made = estimate(batch_size=64, peak_bytes=bent(64))
    peaks = [(batch, size * MIB) for batch, size in zip((2, 4), measured, strict=True)]
    found = calibrated(made, probe(*peaks), bent)
    assert found.peak_bytes == bent(64) + expected * MIB
    assert any("another part of the step" in note for note in found.notes)


@pytest.mark.parametrize("measured", [(100, 90), (100, 100), (100, 200)])
def test_growth_that_cannot_be(measured: tuple[int, int]) -> None:
    """Less per sample than half of the trace's or more than twice: only the base is corrected."""
    trace = line(100, 10)
    made = estimate(batch_size=64, peak_bytes=trace(64))
    peaks = [(batch, size * MIB) for batch, size in zip((2, 4), measured, strict=True)]
    found = calibrated(made, probe(*peaks), trace)
    more = max(peak - trace(batch) for batch, peak in peaks)
    assert found.peak_bytes == trace(64) + more
    assert any("too far apart" in note for note in found.notes)


def test_little_is_not_carried_far() -> None:
    """Two hundredths off at one of two batches: nothing is taken off at one 16 times as large."""
    trace = line(0, 10)
    made = estimate(batch_size=128, peak_bytes=trace(128))
    found = calibrated(made, probe((4, trace(4)), (8, round(0.98 * trace(8)))), trace)
    assert found.peak_bytes == trace(128)
    assert "changes nothing" in found.notes[-1]


def test_never_below_what_stays() -> None:
    """A correction cannot take off what is known to stay between steps."""
    trace = line(310, 1)
    made = estimate(batch_size=4, peak_bytes=trace(4))
    found = calibrated(made, probe((2, 10 * MIB), (4, 11 * MIB)), trace)
    assert found.peak_bytes == made.resident_bytes


def test_only_the_peak_is_changed() -> None:
    """Layers, phases, timeline and advice are the traced ones; the tier says what the peak is."""
    trace = line(100, 28.875)
    made = estimate(peak_bytes=trace(32), notes=("of before",))
    found = calibrated(made, probe((2, trace(2) + MIB), (4, trace(4) + MIB)), trace)
    assert made.tier == TRACED
    assert found == made._replace(
        tier=SIMULATED_CARD, peak_bytes=trace(32) + MIB, notes=found.notes
    )
    assert found.notes[0] == "of before"


def test_what_the_notes_say() -> None:
    """Where it was measured, how far off the trace was, what was added."""
    trace = line(100, 10)
    made = estimate(batch_size=64, peak_bytes=trace(64), notes=())
    close = calibrated(made, probe((2, trace(2) + 6 * MIB), (4, trace(4) + 6 * MIB)), trace)
    assert close.notes == (
        "probed on the simulated GPU: measured 1.05 × traced at batch 2 and 1.04 × traced at "
        "batch 4, which makes +6 MiB at batch 64",
    )
    on_gpu = probe((2, 2 * trace(2)), (4, 2 * trace(4)), tier=GPU, first=GIB)
    first, off, steps = calibrated(made, on_gpu, trace).notes
    assert first.startswith("probed on NVIDIA A30: measured 2.00 × traced")
    assert "far off" in off
    assert "cuDNN tries its algorithms" in steps


@given(
    base=st.integers(0, 2000),
    per_sample=st.floats(0.1, 50),
    base_more=st.integers(-500, 500),
    more=st.floats(-0.4, 0.9),
    largest=st.integers(1, 5000),
)
def test_the_largest_batch_is_never_too_large(
    base: int, per_sample: float, base_more: int, more: float, largest: int
) -> None:
    """It is within what the trace could use of the limit; 5 % more is not, as far as is known."""
    trace = line(base, per_sample)
    real = line(base + base_more, per_sample * (1 + more))
    made = estimate(
        batch_size=8,
        peak_bytes=trace(8),
        resident_bytes=0,
        largest_batch=largest,
        limit_bytes=trace(largest) + 10,
    )
    measured = [MeasuredPeak(batch, real(batch)) for batch in (4, 8)]
    found = calibrated(made, CardProbe(GPU, "", tuple(measured)), trace).largest_batch
    assert found is not None
    tolerance = 2 * largest + 10  # of rounded bytes
    assert found == 0 or real(found) <= trace(largest) + tolerance
    if found < 2 * largest:
        larger = int(found * 1.05) + 2
        corrected = correction_by(made, measured, trace).of(trace(larger), larger)
        assert corrected >= trace(largest) - tolerance


@pytest.mark.parametrize("largest", [None, 0])
def test_without_a_largest_batch_none_is_looked_for(largest: int | None) -> None:
    """No limit was given, or nothing fits: that stays."""
    trace = line(100, 10)
    made = estimate(peak_bytes=trace(32), largest_batch=largest)
    assert calibrated(made, probe((16, 1), (32, 2)), trace).largest_batch is largest


def test_a_record_is_read_as_far_as_it_goes() -> None:
    """Lines that are cut off or not ours are passed over."""
    text = "\n".join(
        [
            '{"event": "card", "name": "NVIDIA A30"}',
            "imported",
            "[1, 2]",
            '{"event": "unknown"}',
            '{"event": "measured", "batch_size": 2}',
            '{"event": "doing", "what": "two steps at batch 2"}',
            '{"event": "measured", "batch_size": 2, "peak_bytes": 7, "first_step_bytes": 9}',
            '{"event": "note", "text": "of the loading"}',
            '{"event": "measured", "batch_size": 4, "peak_by',
        ]
    )
    assert read_record(text) == MeasurementRecord(
        doing="two steps at batch 2",
        card="NVIDIA A30",
        measured=(MeasuredPeak(2, 7),),
        first_step_bytes=(9,),
        notes=("of the loading",),
    )


def test_an_order_comes_through_as_it_was() -> None:
    """As JSON on a command line, shapes included."""
    order = Order("my:model", "/there", (2, 4), loss="mse", input_shape=[8, 8, 3], jit=True)
    assert Order.from_json(order.as_json()) == order


_ORDER = Order("my:model", ".", (2, 4))
_AT = MeasurementRecord(doing="two steps at batch 2")


def failed(kind: str, message: str, hint: str | None = None, *, is_ours: bool = False) -> ProbeRun:
    """A child whose error is in its record."""
    return ProbeRun(_AT._replace(error=ProbeError(kind, message, hint, is_ours)), "", 0)


@pytest.mark.parametrize(
    ("run", "tier", "message", "hint"),
    [
        (ProbeRun(_AT, "", None), GPU, "took more than 60 s, at 'two steps at batch 2'", "seconds"),
        (failed("UsageError", "no such module", "ls", is_ours=True), SIMULATED_CARD,
         "no such module", "ls"),
        (failed("ResourceExhaustedError", "OOM when allocating tensor with shape[9,9] and type "
                "float on /device:GPU:0 by allocator GPU_0_bfc"), SIMULATED_CARD,
         "out of memory: OOM when allocating tensor", "free -h"),
        (failed("InternalError", "Dst tensor is not initialized."), GPU,
         "out of memory: InternalError", "nvidia-smi"),
        (ProbeRun(_AT, "", -signal.SIGKILL), SIMULATED_CARD, "host memory ran out", "--probe"),
        (ProbeRun(_AT, "bad\n", -signal.SIGSEGV), GPU, "ended by SIGSEGV: bad", "--probe"),
        (ProbeRun(_AT, "", 3), GPU, "ended with exit code 3: it printed nothing", "--probe"),
        (ProbeRun(_AT, "gpuconf simulated GPU: the program launched the GPU kernel\n  void f()\n",
                  -signal.SIGABRT), SIMULATED_CARD,
         "a simulated GPU cannot compute it: ", "a real GPU may"),
        (failed("ShortageError", "not enough GPU memory: 0 MiB is left of what is free", "wait",
                is_ours=True), GPU, "0 MiB is left of what is free", "wait"),
        (failed("ValueError", "of the model\nmore"), GPU, "ValueError: of the model", "yourself"),
    ],
)  # fmt: skip
def test_why_a_probe_failed(run: ProbeRun, tier: str, message: str, hint: str) -> None:
    """What it was at, why in a few words, and what to do; always an exit code of 1."""
    error = refusal_of(run, _ORDER, tier=tier, where="the GPU", timeout_s=60)
    assert message in error.message
    assert "two steps at batch 2" in error.message
    assert hint in (error.hint or "")
    assert error.exit_code == 1
    assert "\n" not in error.message
