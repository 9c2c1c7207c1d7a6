"""Real image files of every kind, made by Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

# Left half and right half, upper half and lower half: whoever turns or mirrors it, shows it.
CORNERS = {
    "upper left": (220, 30, 40),
    "upper right": (30, 200, 60),
    "lower left": (20, 90, 210),
    "lower right": (240, 220, 30),
}


def corners(width: int = 96, height: int = 64) -> Image.Image:
    """A picture of four plain colors, one in each corner."""
    pixels = np.zeros((height, width, 3), np.uint8)
    middle, centre = height // 2, width // 2
    pixels[:middle, :centre] = CORNERS["upper left"]
    pixels[:middle, centre:] = CORNERS["upper right"]
    pixels[middle:, :centre] = CORNERS["lower left"]
    pixels[middle:, centre:] = CORNERS["lower right"]
    return Image.fromarray(pixels)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture with detail at every scale, as photographs have."""
    rng = np.random.default_rng(seed)
    pixels = np.zeros((height, width, 3))
    for side in (4, 16, 64):
        coarse = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
        scaled = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        pixels += np.asarray(scaled) / 3
    return Image.fromarray(pixels.astype(np.uint8))


def plain(path: Path, value: int, side: int = 40) -> Path:
    """A picture of one gray, which tells whose it is wherever it turns up; a lossless PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side), (value, value, value)).save(path, "PNG")
    return path


def plains(folder: Path, count: int) -> list[Path]:
    """As many of these, number 3 with the gray 3."""
    return [plain(folder / f"{number:03}.png", number) for number in range(count)]


def turned(path: Path, orientation: int, **options: Any) -> Path:
    """`corners` stored so that only its EXIF orientation makes it upright."""
    # What a viewer undoes, done: each is the inverse of what the orientation asks for.
    method = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }.get(orientation)
    image = corners(**options)
    stored = image if method is None else image.transpose(method)
    exif = Image.Exif()
    exif[0x010F] = "a maker of cameras"
    exif[0x0112] = orientation
    stored.save(path, "JPEG", quality=95, exif=exif)
    return path


def every_kind(folder: Path) -> dict[str, Path]:
    """`corners` as each kind of file that must come out the same."""
    folder.mkdir(parents=True, exist_ok=True)
    image = corners()
    kinds: dict[str, tuple[Image.Image, str, dict[str, Any]]] = {
        "jpeg": (image, "JPEG", {"quality": 95}),
        "progressive": (image, "JPEG", {"quality": 95, "progressive": True}),
        "cmyk": (image.convert("CMYK"), "JPEG", {"quality": 95}),
        "png": (image, "PNG", {}),
        "palette": (image.quantize(16), "PNG", {}),
        "opaque": (image.convert("RGBA"), "PNG", {}),
        "gif": (image.quantize(16), "GIF", {}),
        "bmp": (image, "BMP", {}),
        "bmp-palette": (image.quantize(16), "BMP", {}),
        "webp": (image, "WEBP", {"lossless": True}),
        "tiff": (image, "TIFF", {}),
    }
    paths = {}
    for name, (picture, kind, options) in kinds.items():
        paths[name] = folder / f"{name}.img"
        picture.save(paths[name], kind, **options)
    frames = [image.quantize(16), Image.new("L", image.size, 0).quantize(16)]
    paths["animation"] = folder / "animation.gif"
    frames[0].save(paths["animation"], "GIF", save_all=True, append_images=frames[1:])
    return paths


def greys_of_16_bits(path: Path) -> Path:
    """A ramp of 16-bit greys, 0 to 65535 from left to right."""
    ramp = np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (64, 1))
    Image.fromarray(ramp).save(path, "PNG")
    return path


def broken_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that give no picture, and a word that must be in the reason."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "whole.jpg"
    noise(300, 200).save(whole, "JPEG", quality=90)
    jpeg = whole.read_bytes()
    noise(300, 200).save(whole, "PNG")
    png = whole.read_bytes()
    whole.unlink()
    contents = {
        "half.jpg": (jpeg[: len(jpeg) // 2], "truncated"),
        "half.png": (png[: len(png) // 2], "truncated"),
        "text.jpg": (b"these are words\n" * 9, "not an image"),
        "page.jpg": (b"<!DOCTYPE html><title>404</title>", "HTML"),
        "pointer.jpg": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        "empty.jpg": (b"", "empty"),
        "head.jpg": (jpeg[:3], "not an image"),
    }
    found = {}
    for name, (data, word) in contents.items():
        (folder / name).write_bytes(data)
        found[name] = (folder / name, word)
    (folder / "folder.jpg").mkdir()
    found["folder.jpg"] = (folder / "folder.jpg", "folder")
    (folder / "link.jpg").symlink_to(folder / "nowhere.jpg")
    found["link.jpg"] = (folder / "link.jpg", "broken link")
    found["missing.jpg"] = (folder / "missing.jpg", "missing")
    return found


def lacking_memory(path: Path, times: int, error: Exception | None = None) -> Path:
    """`corners` as a kind of our own, for which Pillow has no memory the first times it is read."""
    left = [error or MemoryError()] * times

    def read(_file: Any, _name: Any) -> Image.Image:
        if left:
            raise left.pop()
        return corners()

    path.write_bytes(b"LACKING" + bytes(50))
    Image.register_open("LACKING", read, lambda start: start.startswith(b"LACKING"))  # type: ignore[arg-type,return-value,unused-ignore]
    return path


def colors_at_corners(picture: Any) -> dict[str, Any]:
    """What is in the middle of each corner of a picture (rows, columns, channels)."""
    rows, columns = picture.shape[0], picture.shape[1]
    upper, lower = rows // 4, 3 * rows // 4
    left, right = columns // 4, 3 * columns // 4
    return {
        "upper left": picture[upper, left],
        "upper right": picture[upper, right],
        "lower left": picture[lower, left],
        "lower right": picture[lower, right],
    }
