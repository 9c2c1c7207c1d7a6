"""The spellings of CUDA_VISIBLE_DEVICES in visible_devices.yaml."""

from __future__ import annotations

from pathlib import Path

import yaml

SPELLINGS = yaml.safe_load(
    Path(__file__).with_name("visible_devices.yaml").read_text(encoding="utf-8")
)


def spelled(spelling: str | None, uuid: str) -> str | None:
    """A spelling of those tried on a real GPU, with the UUID of one in place of its words."""
    for word, text in (
        ("UUID", uuid),
        ("SHORT", uuid[:12]),
        ("LOWER-START", uuid.lower()),
        ("UPPER-DIGITS", uuid.upper()),
        ("DIGITS", uuid[4:]),
    ):
        spelling = spelling.replace(word, text) if spelling else spelling
    return spelling
