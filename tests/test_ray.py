"""`gpuconf.ray` without a Ray."""

from __future__ import annotations

import gpuconf.ray


def test_check_is_silent_outside_ray() -> None:
    """A program that also runs without Ray may call it."""
    gpuconf.ray.check()
