"""The picture: what is in it, for ordinary estimates and for odd ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.estimate import plot
from gpuconf.commands.estimate.memory_estimate import LayerRow
from gpuconf.commands.estimate.plot import Area, areas_of, visible_changes
from gpuconf.commands.estimate.step import BACKWARD, FORWARD, UPDATE, WHOLE
from gpuconf.errors import UsageError
from tests.commands.estimate.estimates import BARE, FITS, INFERENCE, TOO_LARGE, estimate, moment
from tests.support.reporting.outline import texts_of

parts = st.lists(st.sampled_from([FORWARD, BACKWARD, UPDATE]), max_size=80)


MANY = tuple(LayerRow(f"layer{n}", "Dense", (90 - n) * MIB) for n in range(30))
LONG = LayerRow("model/" + "block/" * 20 + "conv<1>$x^2$", "Conv2D", GIB)
KINDS = ("weights", "optimizer state", "activation", "gradient", "workspace", "rounding")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        # The answer, the kinds in use, the parts of the step, the peak, a bar for each layer.
        (FITS, (*KINDS, FORWARD, BACKWARD, UPDATE, "batch 32: 1024 MiB at the peak", "410 MiB",
                "peak 1024 MiB", "backward, stem/conv", "limit 2048 MiB", "stem/conv", "head/dense",
                "relu", "the layers at the peak; 154 MiB outside layers"), "constant"),
        # A limit far above would flatten the rest; one below the peak is a line through it.
        ({"limit_bytes": 80 * GIB, "largest_batch": 9}, ("limit 81920 MiB, far above",), "2048"),
        (TOO_LARGE, ("limit 900 MiB",), "far above"),
        # Twenty layers; the title says what the others have together.
        ({"layers": MANY}, ("layer0", "layer19", "the 20 largest of 30 layers at the peak; the "
                            "others 655 MiB in total; "), "layer20"),
        # The layer's own name is at the end; what matplotlib reads as signs is text.
        ({"layers": (LONG,)}, ("…", "$x^2$"), "model/"),
    ],
)  # fmt: skip
def test_what_is_in_it(
    changes: dict[str, Any], said: tuple[str, ...], unsaid: str, tmp_path: Path
) -> None:
    """Each text of the table is in the plot, and the other one is not."""
    file = tmp_path / "a.svg"
    plot.draw(estimate(**changes), str(file))
    joined = "\n".join(texts_of(file))
    for text in said:
        assert text in joined
    assert unsaid not in joined


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        INFERENCE,
        {"layers": ()},
        {"timeline": (moment(FORWARD, None),)},
        {"timeline": (moment(UPDATE, None), moment(UPDATE, None))},
        {"timeline": tuple(moment(FORWARD, None, new_kind=n % 97) for n in range(9000))},
    ],
)
def test_odd_ones_are_drawn(tmp_path: Path, changes: dict[str, Any]) -> None:
    """As PNG, without a display; no warning of matplotlib's layout (warnings are errors)."""
    file = tmp_path / "a.PNG"
    plot.draw(estimate(**changes), str(file))
    assert file.read_bytes().startswith(b"\x89PNG")


def test_without_a_timeline_there_is_no_picture(tmp_path: Path) -> None:
    """It is said, and no file is left."""
    with pytest.raises(UsageError, match="nothing to plot"):
        plot.draw(estimate(**BARE), str(tmp_path / "a.png"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_went_away(tmp_path: Path) -> None:
    """Is an OSError, which the command tells without losing the answer."""
    with pytest.raises(OSError, match="nosuch"):
        plot.draw(estimate(), str(tmp_path / "nosuch" / "a.png"))


@given(names=parts)
def test_areas_cover_the_step(names: list[str]) -> None:
    """From the first operation to the last, without gaps, each part once and in its order."""
    areas = areas_of(names)
    assert [area.first for area in areas] == [0, *(area.end for area in areas)][: len(areas)]
    assert (areas[-1].end if areas else 0) == len(names)
    order = [FORWARD, BACKWARD, UPDATE]
    assert [area.part for area in areas] == [
        part for part in order if part in {area.part for area in areas}
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([WHOLE], [Area(WHOLE, 0, 1, "the compiled step")]),
        # To the operation; a few among others, which run when they can, make no areas.
        ([FORWARD] * 20 + ([BACKWARD] * 5 + [FORWARD]) * 4 + [BACKWARD] * 5 + [UPDATE] * 9,
         [Area(FORWARD, 0, 20, FORWARD), Area(BACKWARD, 20, 49, BACKWARD),
          Area(UPDATE, 49, 58, UPDATE)]),
    ],
)  # fmt: skip
def test_areas(names: list[str], expected: list[Area]) -> None:
    """The parts of the step."""
    assert areas_of(names) == expected


def test_an_area_of_two_parts() -> None:
    """Where operations of another part are many, the area has both names."""
    many = [FORWARD] * 9 + [BACKWARD, BACKWARD, UPDATE] * 9
    assert [area.name for area in areas_of(many)][:2] == [FORWARD, "backward, update"]


def test_what_changes_nothing_takes_no_room() -> None:
    """Of ten thousand operations that hold next to nothing, none is drawn; the peak always is."""
    small = [moment(UPDATE, None, data=n % 7) for n in range(10_000)]
    steps = [moment(FORWARD, "conv", data=n * MIB) for n in range(1, 50)]
    peak = moment(FORWARD, "conv", data=49 * MIB + 3)
    places = visible_changes([*small, *steps, peak, *steps[::-1], *small])
    assert places[0] == 0
    assert 10_000 + len(steps) in places
    assert len(places) <= 2 * len(steps) + 3


def test_a_slow_rise_is_not_lost() -> None:
    """However small each change is: they are added up."""
    slow = [moment(FORWARD, None, data=n * MIB // 20) for n in range(2000)]
    heights = [slow[place].total_bytes for place in visible_changes(slow)]
    assert heights == sorted(heights)
    assert all(0 < after - before < MIB for before, after in pairwise(heights))
    assert heights[-1] == slow[-1].total_bytes
