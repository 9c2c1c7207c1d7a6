"""docs/design.md names rooms and files that exist, and every room."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpuconf"
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")


def house() -> str:
    """The drawing, from ``gpuconf/`` to the line before the other folders."""
    drawing = DESIGN.partition("## The house")[2].partition("```\n")[2].partition("\n```")[0]
    return drawing.partition("\nconfigs/")[0]


def walks() -> list[str]:
    """What the walks name, in backquotes and with a slash: files below gpuconf/."""
    text = DESIGN.partition("Four walkthroughs")[2].partition("Imports only go **down**")[0]
    return [name for name in re.findall(r"`([\w/*.]+)`", text) if "/" in name]


def exists(name: str) -> bool:
    """Whether ``name``, which may have a ``*``, is a file or folder below gpuconf/."""
    return any(PACKAGE.glob(name)) or any(PACKAGE.glob(f"{name}.py"))


def test_the_walks_lead_through_files() -> None:
    """Each file of a walk exists; one that moves must be moved there too."""
    names = walks()
    assert len(names) > 25
    missing = [name for name in names if not exists(name)]
    assert missing == []
    assert not exists("planner/no_such_file")


def test_the_drawing_has_every_room_and_fits_on_a_screen() -> None:
    """A new room has its line; the whole is no longer than a screen."""
    drawn = set(re.findall(r"\b(\w+)(?:/|\.py)?(?=\s|,|$)", house(), re.MULTILINE))
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert rooms - drawn - {"__main__", "__pycache__", "py", "configs"} == set()
    assert len(house().splitlines()) <= 50
