"""docs/matrix.md: one page of several parts, each with its head and its writer."""

from __future__ import annotations

import re
from pathlib import Path

WRITTEN = Path(__file__).resolve().parents[2] / "docs" / "matrix.md"


def parts_of(page: str) -> list[str]:
    """The parts; each begins with its head, a line of one ``#``."""
    return [part.strip("\n") for part in re.split(r"(?m)^(?=# )", page) if part.strip()]


def part_of(page: str, head: str) -> str:
    """The part with this head; empty where there is none."""
    return next((part for part in parts_of(page) if part.splitlines()[0] == head), "")


def plain(text: str, width: int = 240) -> str:
    """The beginning of a text, in one line that breaks no table."""
    line = re.sub(r"\s+", " ", text).replace("|", "/")
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def replace_part(part: str, written: Path) -> None:
    """Write a part in its place, or behind the others where it has none; they stay as they are."""
    head = part.strip("\n").splitlines()[0]
    before = parts_of(written.read_text(encoding="utf-8")) if written.exists() else []
    heads = [each.splitlines()[0] for each in before]
    place = heads.index(head) if head in heads else len(before)
    after = [*before[:place], part.strip("\n"), *before[place + 1 :]]
    written.write_text("\n\n\n".join(after) + "\n", encoding="utf-8")
