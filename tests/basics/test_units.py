"""Sizes, shares and durations: what is read, what is refused, and that both directions agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics import units
from gpuconf.basics.units import GIB, KIB, MIB, Amount

SIZES = [
    ("6GiB", 6 * GIB),
    ("512 MB", 512_000_000),
    ("512MiB", 512 * MIB),
    ("1.5 GiB", 3 * GIB // 2),
    (".5GiB", GIB // 2),
    ("0B", 0),
    ("100b", 100),
    ("1kB", 1000),
    ("1KiB", KIB),
    ("2tib", 2 * 1024**4),
    ("  7 gib ", 7 * GIB),
    ("0.1MB", 100_000),  # exact, which floats are not: 0.1 × 10⁶ is, 1.1 × 10¹⁵ is not
    ("1024TiB", units.LARGEST_SIZE),
    ("1.9B", 1),
]
NOT_SIZES = [
    *("", " ", "6", "6.", "GiB", "-1GiB", "+1GiB", "6G", "6Gi", "6 gigs", "6GiBs", "1e3MiB"),
    *("nan", "inf", "nanGiB", "0x10GiB", "1_000MiB", "6,5GiB", "6GiB 2MiB", "1 . 5GiB", "70%"),
    *("1025TiB", "9" * 70 + "B", "６GiB", "6\u00a0\u00a0GiB\x00", "6GıB", "1.GiB"),
]


@pytest.mark.parametrize(("text", "size_bytes"), SIZES)
def test_sizes(text: str, size_bytes: int) -> None:
    """Binary units are powers of 1024, decimal ones of 1000; letter case does not matter."""
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize("text", NOT_SIZES)
def test_not_sizes(text: str) -> None:
    """No unit, a sign, an exponent, another alphabet's digits, or too much: refused."""
    with pytest.raises(ValueError, match=r"expected (a number and a unit|at most)"):
        units.parse_size(text)


@given(st.integers(0, units.LARGEST_SIZE))
def test_exact_sizes_read_back(size_bytes: int) -> None:
    """``exact_size`` loses nothing."""
    assert units.parse_size(units.exact_size(size_bytes)) == size_bytes


@pytest.mark.parametrize("size_bytes", [units.LARGEST_SIZE + 1, 2 * 10**15 + 1, 10**30 + 1])
def test_a_sum_of_sizes_may_be_larger_than_any_of_them(size_bytes: int) -> None:
    """A sum is written, though a profile would not take it as one size."""
    assert units.exact_size(size_bytes) == f"{size_bytes}B"


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(["MB", "MiB", "GB", "kB"]))
def test_decimals_are_exact(whole: int, thousandths: int, unit: str) -> None:
    """A decimal size is the floor of the exact product, without the errors of floats."""
    factor = units.parse_size(f"1{unit}")
    exact = (whole * 1000 + thousandths) * factor // 1000
    assert units.parse_size(f"{whole}.{thousandths:03d}{unit}") == exact


@given(st.text(max_size=80))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    """No text makes a parser crash, or gives a negative or boundless value."""
    for parse in (units.parse_size, units.parse_share, units.parse_duration):
        try:
            value = parse(text)
        except ValueError:
            continue
        assert 0 <= value <= units.LARGEST_SIZE


@pytest.mark.parametrize(
    ("text", "share"), [("70%", 0.7), ("0%", 0.0), ("100 %", 1.0), ("12.5%", 0.125), (".5%", 0.005)]
)
def test_shares(text: str, share: float) -> None:
    """A percentage is a part of one."""
    assert units.parse_share(text) == share


@pytest.mark.parametrize("text", ["", "%", "101%", "-1%", "0.7", "nan%", "70%%", "7e1%", "70 GiB"])
def test_not_shares(text: str) -> None:
    """More than all, less than nothing, or no percentage."""
    with pytest.raises(ValueError, match="expected a percentage"):
        units.parse_share(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10min", 600), ("10 m", 600), ("1.5h", 5400), ("30sec", 30), ("168h", 604800)],
)
def test_durations(text: str, seconds: float) -> None:
    """Seconds, minutes and hours, up to a week."""
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "-1s", "1d", "169h", "nan s", "1e9s", "10min30s"])
def test_not_durations(text: str) -> None:
    """No unit, a sign, an unknown unit, or more than a week."""
    with pytest.raises(ValueError, match=r"expected (a number and a unit|at most)"):
        units.parse_duration(text)


@given(st.integers(0, 604_800_000))
def test_durations_read_back(milliseconds: int) -> None:
    """What ``short_duration`` writes is the same duration, to the millisecond."""
    seconds = milliseconds / 1000
    assert units.parse_duration(units.short_duration(seconds)) == pytest.approx(seconds, abs=5e-4)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(90, "90s"), (600, "10min"), (7200, "2h"), (5400, "90min"), (0.25, "0.25s"), (0, "0s")],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    """The largest unit that needs no decimals."""
    assert units.short_duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "whole_bytes", "expected"),
    [
        (Amount(size_bytes=5), None, 5),
        (Amount(size_bytes=0), 100, 0),
        (Amount(share=0.5), 100, 50),
        (Amount(share=0.5), None, None),
        (Amount(share=0.29), 100 * MIB, 29 * MIB),  # in floats one byte less, so 28 MiB
        (Amount(share=0.5), 101, 50),
        (Amount(share=1.0), 11264 * MIB, 11264 * MIB),
        (Amount(), 100, None),
    ],
)
def test_amount_of_a_whole(amount: Amount, whole_bytes: int | None, expected: int | None) -> None:
    """A share of an unknown whole is unknown, never 0; whole MiB stay whole."""
    assert amount.of(whole_bytes) == expected


@given(st.integers(0, 100), st.integers(0, 200 * 1024))
def test_whole_percents_of_a_card_are_exact(percent: int, whole_mib: int) -> None:
    """No percentage of any GPU loses a byte to floats."""
    amount = units.parse_amount(f"{percent}%")
    assert amount.of(whole_mib * MIB) == percent * whole_mib * MIB // 100


@given(st.integers(0, 1_000_000))
def test_shares_read_back(ten_thousandths: int) -> None:
    """The text of a share reads as the same share, and has no exponent."""
    amount = Amount(share=ten_thousandths / 1_000_000)
    assert units.parse_amount(str(amount)).share == pytest.approx(amount.share, abs=1e-12)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Amount(size_bytes=6 * GIB), "6GiB"),
        (Amount(size_bytes=0), "0B"),
        (Amount(share=0.7), "70%"),
        (Amount(share=0.0), "0%"),
        (Amount(share=1 / 3), "33.3333333333%"),
        (Amount(share=1e-9), "0.0000001%"),
    ],
)
def test_amounts_as_text(amount: Amount, text: str) -> None:
    """Amounts are written as a profile has them."""
    assert str(amount) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 MiB"), (300, "300 B"), (KIB, "1 KiB"), (3972, "3.9 KiB"), (576 * KIB, "576 KiB"),
     (MIB - 1, "1024 KiB"), (MIB, "1 MiB"), (75 * MIB // 2, "37.5 MiB"), (64 * MIB, "64 MiB"),
     (100 * MIB - 1, "100 MiB"), (7784 * MIB - 1, "7784 MiB"), (6 * GIB, "6144 MiB"),
     (128 * MIB - 256, "128 MiB"), (0.5, "0 B"), (-24 * MIB, "-24 MiB")],
)  # fmt: skip
def test_sizes_for_people(size_bytes: float, text: str) -> None:
    """One spelling, in MiB at any size; no decimal that says nothing."""
    assert units.sized(size_bytes) == text


def test_a_limit_is_cut_as_tensorflow_does() -> None:
    """One byte less than a MiB is not yet that MiB."""
    assert units.sized(7784 * MIB - 1, cut=True) == "7783 MiB"
    assert units.sized(25 * MIB - 1, cut=True) == "24 MiB"


@given(st.integers(0, units.LARGEST_SIZE))
def test_a_size_for_people_is_near(size_bytes: int) -> None:
    """A twentieth of the smallest figure at most, and half a per cent of one of three digits."""
    shown = units.parse_size(units.sized(size_bytes))
    assert abs(shown - size_bytes) <= size_bytes * (0.005 if size_bytes >= 100 * MIB else 0.05)


@given(st.lists(st.integers(-(2**45), 2**45), max_size=12))
def test_the_figures_of_a_sum_add_up(summands: list[int]) -> None:
    """Figures of a decimal are the sum's figure together, and each is the summand's within 0.1."""
    figures = units.mib_figures(summands)
    tenths = sum(round(float(figure) * 10) for figure in figures)
    assert f"{tenths / 10:.1f}" == units.mib_figure(sum(summands))
    assert all(
        abs(float(figure) - size / MIB) <= 0.1 + 1e-6
        for figure, size in zip(figures, summands, strict=True)
    )


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(6 * GIB, "6GiB"), (1536 * MIB, "1536MiB"), (int(1.2 * GIB), "1.2GiB"), (12 * KIB, "12KiB"),
     (4 * 10**9, "4GB"), (4500 * 10**6, "4500MB"), (1001, "1001B"), (0, "0B")],
)  # fmt: skip
def test_sizes_as_settings(size_bytes: int, text: str) -> None:
    """What is to be typed back is exact, and as short as that allows."""
    assert units.exact_size(size_bytes) == text


@pytest.mark.parametrize(
    ("written", "meant"),
    [("4", "4GiB"), ("4G", "4GiB"), ("4 gigs", "4GiB"), ("6144", "6144MiB"), ("1,5g", "1.5GiB")],
)
def test_a_size_that_was_nearly_one(written: str, meant: str) -> None:
    """What people type at a prompt is answered with what they meant."""
    with pytest.raises(ValueError, match=f"did you mean {meant}") as caught:
        units.parse_size_argument(written)
    assert "6GiB, 512MiB" in str(caught.value)
    assert units.parse_size_argument("4GiB") == 4 * GIB
    with pytest.raises(ValueError, match="number and a unit"):
        units.parse_size_argument("plenty")


_OWN_SPELLING = re.compile(r"\} (?:GiB|KiB)|/ ?(?:KIB|MIB|GIB)[^{}\n]*:[^{}\n]*f\}")


def test_sizes_have_one_writer() -> None:
    """No other file makes GiB or KiB of bytes, or gives MiB decimals of its own."""
    assert _OWN_SPELLING.search('f"{size / GIB:.2f} of it"')
    assert _OWN_SPELLING.search('f"{size:.1f} GiB"')
    texts = {
        file: file.read_text("utf-8") for file in Path(units.__file__).parents[1].rglob("*.py")
    }
    assert len(texts) > 500
    spelled = [str(file) for file, text in texts.items() if _OWN_SPELLING.search(text)]
    assert spelled == [], "use units.sized"
