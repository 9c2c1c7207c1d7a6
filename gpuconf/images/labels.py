"""Labels as numbers: classes by their names, or what was given, checked and put in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuconf.errors import UsageError

# Rows that are named in an error, of all those at fault.
_NAMED = 5


class Labels(NamedTuple):
    """An array with one entry, or row, per image; ``class_names`` where they stand for classes."""

    values: Any  # numpy, int32, int64 or float32
    class_names: tuple[str, ...] | None
    class_count: int | None  # for one-hot vectors, None where they are no class numbers


def make_labels(
    given: Any, count: int, mode: str, class_names: Sequence[str] | None = None
) -> Labels:
    """``given`` as numbers; text becomes the place of the name in ``class_names``, or in order.

    A UsageError names the rows that have no label, an unknown one, or one that does not suit the
    mode, and says where there are more or fewer labels than ``count`` images.
    """
    import numpy as np

    values = _as_array(given, count)
    if values.dtype.kind in "OUS":
        values, class_names = _numbered(values, class_names)
    if values.dtype.kind not in "iubf":
        raise UsageError(
            f"labels of type {values.dtype} are no numbers and no names",
            hint="labels=[0, 1, …] or names of classes",
        )
    if values.dtype.kind == "f":
        _refuse_rows(~np.isfinite(values.reshape(count, -1)).all(axis=1), "are NaN or infinite")
        if values.ndim == 1 and mode != "int":
            values = _whole(values, mode)
    count_of_classes = _class_count(values, mode, class_names)
    names = None if class_names is None else tuple(class_names)
    return Labels(_narrowed(values), names, count_of_classes)


def _as_array(given: Any, count: int) -> Any:
    import numpy as np

    try:
        values = np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise UsageError(f"labels are no array: {error}", hint="labels=[0, 1, …]") from None
    length = 0 if values.ndim == 0 else len(values)
    if length != count:
        raise UsageError(
            f"{length} labels for {count} images: each image needs one, in the same order",
            hint="check both: len(paths), len(labels)",
        )
    return values


def _numbered(values: Any, class_names: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Text as the places of the names; numbers that only came as objects, as numbers."""
    import numpy as np

    cells = values.tolist()
    missing = np.array([_is_missing(cell) for cell in cells])
    _refuse_rows(missing, "are missing")
    if not all(isinstance(cell, (str, bytes)) for cell in cells):
        try:
            return np.asarray(cells, dtype=np.result_type(*map(type, cells))), class_names
        except (TypeError, ValueError):
            raise UsageError(
                "labels are of several types; they must be all numbers or all names",
                hint="labels=[str(label) for label in labels]",
            ) from None
    texts = [cell if isinstance(cell, str) else cell.decode() for cell in cells]
    names = sorted(set(texts)) if class_names is None else list(class_names)
    places = {name: place for place, name in enumerate(names)}
    unknown = sorted(set(texts) - set(names))
    if unknown:
        raise UsageError(
            f"labels {', '.join(map(repr, unknown[:_NAMED]))} are not in class_names={names!r}",
            hint="add them to class_names, or leave class_names out",
        )
    return np.array([places[text] for text in texts]), names


def _is_missing(cell: Any) -> bool:
    """None, "", NaN and pandas' NA, which equals nothing, not even itself."""
    if cell is None or (isinstance(cell, (str, bytes)) and not cell):
        return True
    try:
        return bool(cell != cell)  # noqa: PLR0124  # NaN, of whichever type
    except (TypeError, ValueError):  # pandas.NA has no truth value, and an array has several
        return type(cell).__name__ == "NAType"


def _refuse_rows(bad: Any, what: str) -> None:
    import numpy as np

    rows = np.flatnonzero(bad).tolist()
    if rows:
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        told = ", ".join(map(str, rows[:_NAMED]))
        raise UsageError(
            f"{len(rows)} labels {what}: those of images {told}{more} (counted from 0)",
            hint="give every image a label, or leave these images out",
        )


def _whole(values: Any, mode: str) -> Any:
    import numpy as np

    _refuse_rows(values != np.floor(values), f"are no whole numbers, which {mode!r} needs")
    return values.astype(np.int64)


def _class_count(values: Any, mode: str, class_names: Sequence[str] | None) -> int | None:
    if values.ndim != 1 or values.dtype.kind == "f":
        if mode != "int":
            raise UsageError(
                f"label_mode={mode!r} makes vectors out of class numbers; these labels have the "
                f"shape {values.shape} and the type {values.dtype}",
                hint='label_mode="int" leaves labels as they are',
            )
        return None
    if mode == "binary" and class_names is not None and len(class_names) != 2:
        raise UsageError(
            f'label_mode="binary" needs two classes; there are {len(class_names)}: '
            f"{', '.join(class_names)}",
            hint='label_mode="int" or "categorical"',
        )
    largest = int(values.max())
    count = largest + 1 if class_names is None else len(class_names)
    if mode == "binary":
        count = 2
    if mode != "int" or class_names is not None:
        _refuse_rows((values < 0) | (values >= count), f"are none of the classes 0 to {count - 1}")
    return count


def _narrowed(values: Any) -> Any:
    """The types that Keras gives: int32 where it suffices, float32."""
    import numpy as np

    if values.dtype.kind == "f":
        return values.astype(np.float32)
    fits = abs(int(values.min())) < 2**31 and int(values.max()) < 2**31
    return values.astype(np.int32 if fits else np.int64)
