"""The options of `stream`, checked before any file is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuconf.basics.arguments import memory_size, whole_number
from gpuconf.basics.units import MIB
from gpuconf.errors import UsageError
from gpuconf.images.memory_plan import REDUCED_BYTES_PER_PIXEL, WHOLE_BYTES_PER_PIXEL

INTERPOLATIONS = (
    *("bilinear", "nearest", "bicubic", "area"),
    *("lanczos3", "lanczos5", "gaussian", "mitchellcubic"),
)
POLICIES = ("raise", "skip")
LABEL_MODES = ("int", None)
SUBSETS = ("training", "validation", "both")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """How a file becomes an array: its final shape, and how it is resized.

    Raises UsageError for invalid options.
    """

    height: int
    width: int
    channels: int
    interpolation: str = "bilinear"
    antialias: bool = True
    crop_to_aspect_ratio: bool = False
    pad_to_aspect_ratio: bool = False

    def __post_init__(self) -> None:
        if self.channels not in (1, 3, 4) or isinstance(self.channels, bool):
            raise UsageError(
                f"channels={self.channels!r} is not 3 (RGB), 1 (gray), or 4 (RGBA)",
                hint="channels=3",
            )
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        if self.crop_to_aspect_ratio and self.pad_to_aspect_ratio:
            raise UsageError(
                "crop_to_aspect_ratio and pad_to_aspect_ratio cannot both be used",
                hint="crop_to_aspect_ratio cuts the edges off; pad_to_aspect_ratio adds black ones",
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns, channels."""
        return self.height, self.width, self.channels

    @property
    def averages(self) -> bool:
        """Whether pixels may be averaged; masks, which are resized by ``nearest``, must not be."""
        return self.antialias and self.interpolation != "nearest"

    @property
    def bytes_per_pixel(self) -> int:
        """Maximum bytes per pixel for decoding a JPEG or a plain PNG."""
        return REDUCED_BYTES_PER_PIXEL if self.averages else WHOLE_BYTES_PER_PIXEL


def check_size(size: Any) -> tuple[int, int]:
    """``(height, width)``; one number means a square, as in Keras."""
    pair = size if isinstance(size, (tuple, list)) else (size, size)
    try:
        height, width = (whole_number("size", side) for side in pair)
    except (UsageError, ValueError):
        raise UsageError(
            f"size={size!r} is not a pair of integers (height, width)", hint="size=(224, 224)"
        ) from None
    return height, width


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Accept one of the choices, or raise a UsageError that lists them."""
    if not any(value is choice or value == choice for choice in choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise UsageError(f"{name}={value!r} is not one of {listed}", hint=f"{name}={choices[0]!r}")


def check_host_limit(limit: Any) -> int:
    """Return bytes from a size or a number; less than 1 MiB is too little to decode anything."""
    return memory_size("host_limit", limit, least=MIB, hint='host_limit="2GiB"')


def check_flag(name: str, value: Any) -> None:
    """Accept only True and False, not values that Python would treat as one of them."""
    if not isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is neither True nor False", hint=f"{name}=True")


def check_seed(seed: Any) -> None:
    """Accept None or an integer of at least 0."""
    if seed is not None:
        whole_number("seed", seed, least=0, hint="seed=1")


def check_split(validation_split: Any, subset: str | None) -> None:
    """Accept a share and a subset, or neither."""
    if validation_split is None and subset is None:
        return
    if validation_split is None or subset is None:
        raise UsageError(
            f"validation_split={validation_split!r} and subset={subset!r}: pass both or neither",
            hint='validation_split=0.2, subset="training"',
        )
    check_choice("subset", subset, SUBSETS)
    if not isinstance(validation_split, float) or not 0 < validation_split < 1:
        raise UsageError(
            f"validation_split={validation_split!r} is not a fraction between 0 and 1",
            hint="validation_split=0.2",
        )
