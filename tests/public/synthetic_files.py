"""Files of synthetic data, for scripts that read theirs from disk."""

from __future__ import annotations

import gzip
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image

Facts = Mapping[str, Any]
RANDOM = np.random.default_rng(3)


def write_file(path: pathlib.Path, facts: Facts) -> None:
    """Write the file, or the folder of images, that an entry of the list describes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    KINDS[facts["kind"]](path, facts)


def write_images(path: pathlib.Path, facts: Facts) -> None:
    """A folder of noise: 0.jpg, 1.jpg and so on."""
    path.mkdir()
    for number in range(facts["count"]):
        image = numbers(facts, facts["shape"])
        Image.fromarray(image).save(path / f"{number}{facts['suffix']}")


def write_table(path: pathlib.Path, facts: Facts) -> None:
    """A table of numbers, one column of which is a label: 1 in every other row."""
    table: Any = RANDOM.random(facts["shape"])
    table[:, facts["column"]] = np.where(np.arange(len(table)) % 2, 1, facts["low"])
    np.savetxt(path, table, delimiter=facts["delimiter"], fmt="%.5f")


def write_times(path: pathlib.Path, facts: Facts) -> None:
    """A value each minute; with `jump` it rises in the second half."""
    (count,) = facts["shape"]
    values = RANDOM.random(count) + facts.get("jump", 0) * (np.arange(count) > count // 2)
    rows = (
        f"2014-04-01 {n // 60 % 24:02}:{n % 60:02}:00,{value:.4f}" for n, value in enumerate(values)
    )
    path.write_text("\n".join(["timestamp,value", *rows]) + "\n")


def write_bytes(path: pathlib.Path, facts: Facts) -> None:
    """Noise; with `header` so many bytes stand before it, and all is compressed."""
    content = numbers(facts, facts["shape"]).tobytes()
    header = facts.get("header")
    path.write_bytes(content if header is None else gzip.compress(bytes(header) + content))


def numbers(facts: Facts, shape: list[int]) -> Any:
    """Bytes from `low` up to, without, `high`."""
    return RANDOM.integers(facts.get("low", 0), facts.get("high", 256), shape, dtype=np.uint8)


KINDS: dict[str, Callable[[pathlib.Path, Facts], None]] = {
    "images": write_images,
    "table": write_table,
    "times": write_times,
    "bytes": write_bytes,
}
