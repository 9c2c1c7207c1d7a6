"""Pillow's part: who may decode when, what a file says of itself, and what it may take."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gpuconf.images import ImageError
from gpuconf.images.memory_plan import decoding_bytes
from gpuconf.images.options import Picture
from gpuconf.images.pillow_reading import DecodeLimits, examine, read_orientation, read_picture
from tests.images.image_files import lacking_memory, noise, turned

_PICTURE = Picture(height=48, width=48, channels=3)


def read(path: Path, lanes: DecodeLimits | None = None, **changes: Any) -> Any:
    """The picture as Pillow gives it, at its own size."""
    picture = Picture(**{**vars(_PICTURE), **changes})
    return read_picture(
        os.fsencode(path), picture, lanes or DecodeLimits(1 << 30, 1 << 30), np.asarray
    )


def test_large_images_wait_for_each_other_and_small_ones_for_nobody() -> None:
    """One image above the workers' share at a time; others pass beside it."""
    lanes, entered = DecodeLimits(10, 100), []

    def enter(size_bytes: int) -> None:
        with lanes.enter(size_bytes, "a.jpg", "an image"):
            entered.append(size_bytes)

    with lanes.enter(11, "b.jpg", "an image"):
        small, large = (threading.Thread(target=enter, args=[size]) for size in (10, 50))
        large.start()
        small.start()
        small.join(10)
        large.join(0.2)
        assert entered == [10]
    large.join(10)
    assert entered == [10, 50]


def test_what_a_kind_of_file_takes_is_known(tmp_path: Path) -> None:
    """28 bytes a pixel for what Pillow reads whole, 7 for a JPEG that it reduces."""
    for name, kind, changes, per_pixel in (
        ("a.webp", "WEBP", {}, 28),
        ("a.jpg", "JPEG", {}, 7),
        ("a.jpg", "JPEG", {"antialias": False}, 28),
    ):
        path = tmp_path / name
        noise(300, 200).save(path, kind)
        needed = decoding_bytes(300 * 200, path.stat().st_size, per_pixel)
        read(path, DecodeLimits(needed, needed), **changes)
        with pytest.raises(ImageError, match="300 × 200 pixels"):
            read(path, DecodeLimits(needed - 1, needed - 1), **changes)


def test_what_is_no_orientation(tmp_path: Path) -> None:
    """Another number than 1 to 8, and what is not an image."""
    turned(tmp_path / "a.jpg", 77)
    assert read_orientation((tmp_path / "a.jpg").read_bytes()) == 1
    assert read_orientation(b"no image at all") == 1


def test_large_jpegs_are_reduced_and_others_not(tmp_path: Path) -> None:
    """To no less than the final size; masks not at all."""
    noise(960, 720).save(tmp_path / "a.jpg")
    noise(960, 720).save(tmp_path / "a.png")
    assert read(tmp_path / "a.jpg").shape == (90, 120, 3)
    assert read(tmp_path / "a.jpg", interpolation="nearest").shape == (720, 960, 3)
    assert read(tmp_path / "a.png").shape == (720, 960, 3)


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError("out of memory error when reading image file")]
)
def test_a_lack_of_memory_is_nothing_wrong_with_the_file(tmp_path: Path, error: Exception) -> None:
    """It is a MemoryError with the file's name, and no ImageError, of which files are skipped."""
    path = lacking_memory(tmp_path / "a.jpg", 2, error)
    with pytest.raises(MemoryError, match=r"a\.jpg: this machine has no memory left.*\n  hint: "):
        read(path)
    with pytest.raises(MemoryError, match=r"a\.jpg"):
        examine(os.fsencode(path), _PICTURE, 1 << 30)
    assert read(path).shape == (64, 96, 3)


def test_numbers_of_no_known_range_are_refused(tmp_path: Path) -> None:
    """A TIFF of floating-point numbers could mean anything."""
    Image.fromarray(np.zeros((20, 20), np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(ImageError, match=r"a\.tiff: its pixel values have no known range"):
        read(tmp_path / "a.tiff")
