"""A setting's fate, in one word and in one line."""

from __future__ import annotations

import pytest

from gpuconf.settings import Setting


@pytest.mark.parametrize(
    ("setting", "status", "line"),
    [
        (Setting("limit", "7 MiB", "7 MiB"), "ok", "limit: 7 MiB"),
        (Setting("limit", "7 MiB"), "pending", "limit: asked 7 MiB, not yet in effect"),
        (
            Setting("limit", "7 MiB", "6 MiB", "too late"),
            "differs",
            "limit: asked 7 MiB, got 6 MiB: too late",
        ),
        (
            Setting("limit", "7 MiB", None, "no CUDA"),
            "differs",
            "limit: asked 7 MiB, got nothing: no CUDA",
        ),
    ],
)
def test_fate(setting: Setting, status: str, line: str) -> None:
    """What was asked, what is so, and why not."""
    assert setting.status == status
    assert str(setting) == line
    assert setting.as_dict() == {**setting._asdict(), "status": status}
