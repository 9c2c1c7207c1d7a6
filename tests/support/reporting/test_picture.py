"""The canvas of pictures: its unit is that of the texts on it, and its file says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, KIB, MIB
from gpuconf.support.reporting.picture import canvas, save, shortened, unit_for


@pytest.mark.parametrize(
    ("size_bytes", "unit"),
    [(0, ("KiB", KIB)), (MIB - 1, ("KiB", KIB)), (MIB, ("MiB", MIB)), (80 * GIB, ("MiB", MIB))],
)
def test_an_axis_has_the_unit_of_sizes(size_bytes: int, unit: tuple[str, int]) -> None:
    """MiB at any size, as sizes are written."""
    assert unit_for(size_bytes) == unit


def test_long_names_lose_their_beginning() -> None:
    """The end of a layer's name is what makes it differ from its neighbors."""
    assert shortened("encoder/block_1/dense", 12) == "…ock_1/dense"
    assert shortened("dense", 5) == "dense"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["memory.svg", "memory.PNG"])
def test_a_file_says_what_it_shows(name: str, tmp_path: Path) -> None:
    """In the metadata that the format has, and with nothing of pyplot loaded."""
    figure = canvas(3, 2, "a heading")
    figure.add_subplot()
    save(figure, str(tmp_path / name), "gpuconf: an example")
    assert b"gpuconf: an example" in (tmp_path / name).read_bytes()
