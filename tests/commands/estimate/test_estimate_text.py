"""The report for people: the answer first, sums that add up, and lines that fit the terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.estimate.budget import Budget
from gpuconf.commands.estimate.memory_estimate import (
    LayerRow,
    MemoryEstimate,
    Phase,
)
from gpuconf.commands.estimate.peak_sum import peak_kinds, peak_sum
from gpuconf.commands.estimate.step import BACKWARD, SIMULATED_CARD
from gpuconf.commands.estimate.text import headline, report, table_lines, table_rows
from gpuconf.machine.cards import Gpu
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES
from gpuconf.support.batch_search import MOST_BATCH
from tests.commands.estimate.estimates import (
    BARE,
    FITS,
    HOPELESS,
    INFERENCE,
    LAYERS,
    STAYS,
    TOO_LARGE,
    estimate,
    moment,
)

CARD = Gpu(0, name="NVIDIA X", total_bytes=8 * GIB, free_bytes=7 * GIB, compute_capability=(8, 6))
LONG = LayerRow("encoder/" + "block/" * 12 + "attention/query", "Dense", 7 * GIB, 7 * GIB, 7 * GIB)


def told(made: MemoryEstimate, width: int | None = None, **options: Any) -> str:
    """The whole report."""
    return "\n".join(line.text for line in report(made, width=width, **options))


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, "batch 32: 1024 MiB at the peak, 300 MiB between steps"),
        (FITS, "300 MiB between steps; the largest batch that fits in 2048 MiB is 84"),
        (TOO_LARGE, "between steps: does not fit in 900 MiB; the largest batch that does is 24"),
        (HOPELESS, "between steps: does not fit in 200 MiB, nor would a single sample"),
        ({"limit_bytes": GIB, "largest_batch": MOST_BATCH}, f"1024 MiB is {MOST_BATCH} or more"),
    ],
)
def test_the_answer_comes_first(changes: dict[str, Any], answer: str) -> None:
    """In one line: the peak, what stays, whether it fits, and the largest batch that does."""
    made = estimate(**changes)
    first = next(iter(report(made)))
    assert first.text == headline(made)
    assert first.text.endswith(answer)
    assert str(made).startswith(first.text), "what `print` shows in Python"
    assert first.style == ("bold red" if made.fits is False else "bold green")


def test_what_was_modelled() -> None:
    """How the number was come by, the mode, optimizer, loss, precision, XLA, and versions."""
    words = "compiled, nothing was run: training with Adam and mse, float32, without XLA; "
    assert f"\n{words}tensorflow 2.21.0, keras 3.15.1\n" in told(estimate())
    assert "inference, float32" in told(estimate(**INFERENCE))
    ran = told(estimate(tier=SIMULATED_CARD))
    assert "\none step run without its kernels, on a simulated GPU: training with " in ran


def test_the_peak_is_in_words() -> None:
    """The part of the step, the layer, the operation; last, what was assumed."""
    text = told(estimate(notes=("the model is not compiled: Adam is assumed",)))
    assert text.endswith("\nnotes\n  the model is not compiled: Adam is assumed")
    assert "  in the backward pass, layer stem/conv\n  operation grad/stem/conv/Filter\n" in text
    assert "activations, kept for the backward pass" in text
    assert "kept for the backward pass" not in told(estimate(**INFERENCE))


STAYING = ("weights", "optimizer state", "arrays of fit()")
sizes = st.dictionaries(
    st.sampled_from([*STAYING, "activation", "gradient", "data", "new kind"]),
    st.integers(0, 8 * GIB),
    min_size=1,
)


@given(kinds=sizes, more=st.integers(-MIB, GIB))
def test_the_sum_adds_up(kinds: dict[str, int], more: int) -> None:
    """To the byte, whatever was in memory and whatever the allocator has added."""
    peak = sum(kinds.values()) + more
    made = estimate(peak_bytes=peak, timeline=(moment("backward", None)._replace(
        bytes_by_kind=kinds),))  # fmt: skip
    rows = peak_sum(made)
    signs = {"+": 1, " ": 1, "-": -1, "=": 0}
    assert sum(signs[row.sign] * row.size_bytes for row in rows) == peak == rows[-1].size_bytes
    resident = next(row for row in rows if row.sign == "=")
    assert resident.size_bytes == sum(kinds.get(kind, 0) for kind in STAYING)
    assert sum(peak_kinds(made).values()) == peak
    without = [(row.sign, row.size_bytes) for row in peak_sum(estimate(**BARE))]
    stays = sum(STAYS.values())
    assert without == [(" ", stays), ("=", stays), ("+", GIB - stays), ("=", GIB)], "no timeline"


def test_what_building_takes_is_a_row_of_its_own() -> None:
    """It is not rounding, and the formulas are for a step."""
    text = told(estimate(peak_bytes=1500 * MIB, building_bytes=476 * MIB))
    assert "while the model is built; a step peaks in the backward pass, layer stem" in text
    assert "+  476.0 MiB  extra while the model is built" in text
    assert "+   70.0 MiB  unused parts of the allocator's chunks, and constants" in text
    assert "1024.0 MiB in chunks\n" in text


def test_the_formula() -> None:
    """With the batches that it comes from, and what it gives for this batch."""
    lines = told(estimate()).splitlines()
    place = lines.index("the peak at batch sizes near this one: resident memory plus")
    assert lines[place + 1 : place + 3] == [
        "  100.0 MiB + 16.6 MiB × batch  (from batches 32 and 64)",
        "  here 300.0 + 100.0 + 16.6 × 32 = 931.2 MiB requested; 1024.0 MiB in chunks",
    ]
    phase = Phase(-MIB, 40.0, 1, "op", None, BACKWARD)
    assert "here 300.0 - 1.0 + 0 × 32" in told(estimate(phases=(phase,)))


def test_the_table_of_layers() -> None:
    """A row for each, one for what belongs to none, and the sum; empty columns are left out."""
    lines = [line.split() for line in table_lines(table_rows(LAYERS, is_whole=False), None)]
    assert lines == [
        ["MiB", "weights", "gradients", "optimizer", "kept", "other", "sum"],
        ["stem/conv", "20.0", "20.0", "40.0", "300.0", "30.0", "410.0"],
        ["head/dense", "80.0", "20.0", "160.0", "-", "-", "260.0"],
        ["relu", "-", "-", "-", "200.0", "-", "200.0"],
        ["unattributed/workspace", "-", "-", "-", "-", "154.0", "154.0"],
        ["total", "100.0", "40.0", "200.0", "500.0", "184.0", "1024.0"],
    ]
    without = [row._replace(gradients_bytes=0, optimizer_state_bytes=0) for row in LAYERS]
    heading = next(iter(table_lines(table_rows(without, is_whole=False), None)))
    assert heading.split() == ["MiB", "weights", "kept", "other", "sum"]


def test_many_layers_are_the_largest_and_the_rest() -> None:
    """Ten and a sum of the others, which loses nothing; all of them with -v."""
    many = tuple(LayerRow(f"layer{n}", "Dense", (40 - n) * MIB) for n in range(40))
    few = table_rows((*many, LAYERS[-1]), is_whole=False)
    assert [row.name for row in few[:2]] == ["layer0", "layer1"]
    last = ["30 smaller layers", "unattributed/workspace", "total"]
    assert [row.name for row in few[-3:]] == last
    assert sum(row.sizes[-1] for row in few[:-1]) == few[-1].sizes[-1]
    whole = told(estimate(layers=many), verbose=True)
    assert all(f"  layer{n} " in whole for n in range(40))
    assert "layer20" not in told(estimate(layers=many))
    assert len(table_rows(many[:11], is_whole=False)) == 12, "one more row, not a sum of one"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("changes", [{}, FITS, TOO_LARGE, HOPELESS, INFERENCE, BARE])
def test_every_line_fits(width: int, changes: dict[str, Any]) -> None:
    """The terminal, but what is to be pasted; no word is lost or cut in two by it."""
    made = estimate(**{"layers": (*LAYERS, LONG), **changes})
    budget = Budget("--limit", gpu=CARD)
    lines = list(report(made, budget=budget, width=width))
    pastes = {line.text for line in lines if line.style == "cyan"}
    assert [line.text for line in lines if len(line.text) > width and line.text not in pastes] == []
    whole = [line for line in report(made, budget=budget) if line.hang is not None]
    shown = " ".join(line.text for line in lines if line.hang is not None)
    assert shown.split() == " ".join(line.text for line in whole).split()


def test_a_narrow_table_keeps_the_end_of_a_name() -> None:
    """Where the layer's own name stands, and every column of the table."""
    wide = [*table_lines(table_rows((LONG, LAYERS[0]), is_whole=False), 58)]
    assert max(map(len, wide)) <= 58
    assert wide[1].startswith("…")
    assert wide[1].split()[0].endswith("attention/query")
    assert wide[0].split() == ["MiB", "weights", "grads", "optim", "kept", "other", "sum"]


def test_the_limit_is_a_sum() -> None:
    """What may be used, less the peak; and the profile's own arithmetic before it."""
    budget = Budget("profile half-card, GPU 0", ("fraction 0.5 × 4096 MiB total = 2048 MiB",))
    text = told(estimate(**FITS), budget=budget)
    assert "  fraction 0.5 × 4096 MiB total = 2048 MiB\n" in text
    assert "     2048.0 MiB  TensorFlow may use (profile half-card, GPU 0)\n" in text
    assert "  -  1024.0 MiB  the peak, 50 % of it\n  =  1024.0 MiB  left\n" in text
    assert "  =   124.0 MiB  too little\n" in told(estimate(**TOO_LARGE))
    assert "the limit" not in told(estimate())


def test_the_card_is_a_sum_of_its_own() -> None:
    """The CUDA context and TensorFlow's reserve are next to the model, not in it."""
    text = told(estimate())
    assert CONTEXT_BYTES == 450 * MIB
    assert "+   450.0 MiB  the CUDA context (300 to 600 MB)" in text
    assert "=  1474.0 MiB  needed free on the GPU" in text
    assert "reserves another 500 to 1800 MiB (by generation)" in text
    known = told(estimate(), budget=Budget(gpu=CARD))
    assert "reserves another 1536 MiB (compute capability 8.6)" in known
    assert "GPU 0 NVIDIA X: 7168 MiB of 8192 MiB free now" in known
    unknown = told(estimate(), budget=Budget(gpu=Gpu(1)))
    assert "GPU 1: an unknown amount free now" in unknown


def test_advice_says_what_it_saves() -> None:
    """Each change with its peak and whether it fits, and what to write for it."""
    text = told(estimate(**TOO_LARGE))
    assert "mixed precision: saves 424 MiB (600 MiB at the peak, fits)\n" in text
    assert "      keras.config.set_dtype_policy('mixed_float16')\n" in text
    assert "stochastic gradient descent: saves 24 MiB (1000 MiB at the peak, does not fit)" in text


def test_pieces_are_named_where_the_peak_is_below_the_limit() -> None:
    """What does not fit although there is enough in all is not a contradiction without a reason."""
    text = told(estimate(limit_bytes=2 * GIB, largest_batch=24))
    assert "free, but too fragmented for the largest request" in text
    assert "--no-growth" in text
    made = estimate(limit_bytes=2 * GIB, largest_batch=24)
    of_one_region = told(made, budget=Budget(allow_growth=False))
    assert of_one_region == text.replace("; --no-growth shows what a single region would do", "")
    assert "too fragmented" not in told(estimate(limit_bytes=2 * GIB, largest_batch=84))
