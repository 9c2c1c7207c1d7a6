"""Labels as numbers: checked, with class names replaced by their indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuconf.errors import UsageError
from gpuconf.images.failures import Origin

# A function that names the entries at these indices in an error.
Where = Callable[[Sequence[int]], str]
_IN_A_LIST = Origin()
# Number of class names shown in an error.
_SHOWN = 5


class Labels(NamedTuple):
    """An array with one entry, or row, per image; ``class_names`` if the labels are classes."""

    values: Any  # numpy, int32, int64 or float32
    class_names: tuple[str, ...] | None


def make_labels(
    given: Any,
    count: int,
    class_names: Sequence[str] | None = None,
    where: Where = _IN_A_LIST.named,
) -> Labels:
    """Convert ``given`` to numbers; text becomes the index in ``class_names`` or in sorted order.

    Raises UsageError, with names from ``where``, for images whose label is missing or unknown, and
    if the number of labels is not ``count``.
    """
    import numpy as np

    values = _as_array(given, count)
    if values.dtype.kind in "OUS":
        values, class_names = _numbered(values, class_names, where)
    if values.dtype.kind not in "iubf":
        raise UsageError(
            f"labels of type {values.dtype} are neither numbers nor names",
            hint="labels=[0, 1, …] or class names",
        )
    if values.dtype.kind == "f":
        finite = np.isfinite(values.reshape(count, -1)).all(axis=1)
        _refuse(~finite, "are NaN or infinite", where)
    elif values.ndim == 1 and class_names is not None:
        outside = (values < 0) | (values >= len(class_names))
        _refuse(outside, f"are not among the classes 0 to {len(class_names) - 1}", where)
    return Labels(_narrowed(values), None if class_names is None else tuple(class_names))


def _as_array(given: Any, count: int) -> Any:
    import numpy as np

    try:
        values = np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise UsageError(f"labels are not an array: {error}", hint="labels=[0, 1, …]") from None
    if values.dtype.kind in "US":  # np.array would turn a NaN among names into text
        values = np.asarray(given, dtype=object)
    length = 0 if values.ndim == 0 else len(values)
    if length != count:
        raise UsageError(
            f"{length} labels for {count} images: each image needs one, in the same order",
            hint="check both: len(paths), len(labels)",
        )
    return values


def _numbered(
    values: Any, class_names: Sequence[str] | None, where: Where
) -> tuple[Any, Sequence[str] | None]:
    """Replace text with class name indices, and numbers stored as objects with numbers."""
    import numpy as np

    cells = values.tolist()
    _refuse(np.array([_is_missing(cell) for cell in cells]), "are missing", where)
    if not all(isinstance(cell, (str, bytes)) for cell in cells):
        return _numbers(cells, where), class_names
    texts = [cell if isinstance(cell, str) else cell.decode() for cell in cells]
    names = sorted(set(texts)) if class_names is None else list(class_names)
    places = {name: place for place, name in enumerate(names)}
    unknown = sorted(set(texts) - set(names))
    _refuse(
        np.array([text not in places for text in texts]),
        f"are not in class_names={names!r} ({', '.join(map(repr, unknown[:_SHOWN]))})",
        where,
        hint="add them to class_names, or leave class_names out",
    )
    return np.array([places[text] for text in texts]), names


def _numbers(cells: list[Any], where: Where) -> Any:
    """Convert cells to numbers; a UsageError names two cells of different types."""
    import numpy as np

    try:
        values = np.asarray(cells, dtype=np.result_type(*map(type, cells)))
    except (TypeError, ValueError):
        values = None
    if values is None or values.dtype.kind in "US":
        other = next((n for n, cell in enumerate(cells) if type(cell) is not type(cells[0])), 0)
        raise UsageError(
            f"labels have several types; they must be all numbers or all names: "
            f"{cells[0]!r}, {cells[other]!r}: {where([0, other])}",
            hint="labels=[str(label) for label in labels]",
        )
    return values


def _is_missing(cell: Any) -> bool:
    """Whether a cell is None, "", NaN or pandas' NA, which is not even equal to itself."""
    if cell is None or (isinstance(cell, (str, bytes)) and not cell):
        return True
    try:
        return bool(cell != cell)  # noqa: PLR0124  # NaN, of whichever type
    except (TypeError, ValueError):  # pandas.NA has no truth value, and an array has several
        return type(cell).__name__ == "NAType"


def _refuse(
    bad: Any,
    what: str,
    where: Where,
    *,
    hint: str = "provide a label for every image, or leave these images out",
) -> None:
    """Raise a UsageError that names the bad entries, if there are any."""
    import numpy as np

    places = np.flatnonzero(bad).tolist()
    if places:
        raise UsageError(f"{len(places)} labels {what}: {where(places)}", hint=hint)


def _narrowed(values: Any) -> Any:
    """Convert to Keras's types: float32, and int32 if the numbers fit."""
    import numpy as np

    if values.dtype.kind == "f":
        return values.astype(np.float32)
    fits = abs(int(values.min())) < 2**31 and int(values.max()) < 2**31
    return values.astype(np.int32 if fits else np.int64)
