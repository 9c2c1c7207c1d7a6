"""The files and labels that the caller passes, as one list."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from gpuconf.errors import UsageError
from gpuconf.images.failures import SKIP_HINT, ImageError, Origin
from gpuconf.images.folders import EXTENSIONS, list_folder
from gpuconf.images.labels import Labels, make_labels
from gpuconf.images.tables import TABLE_EXTENSIONS, ImageTable, read_table, take_table

_NAMED = 5


class ImageList(NamedTuple):
    """The names of files as bytes, and their labels, if they have any."""

    paths: list[bytes]
    labels: Labels | None

    def take(self, places: Sequence[int]) -> ImageList:
        """The entries at these indices, in the same order."""
        paths = [self.paths[place] for place in places]
        labels = self.labels
        if labels is not None:
            labels = labels._replace(values=labels.values[list(places)])
        return ImageList(paths, labels)


def list_images(
    given: Any,
    labels: Any = None,
    *,
    with_labels: bool = True,
    class_names: Sequence[str] | None = None,
    path_column: str = "path",
    label_column: str | None = None,
    follow_links: bool = False,
) -> ImageList:
    """Return all files and labels of a folder, a list in a file, a table, or a sequence.

    Without ``labels``, the labels are those of the class folders, or of the list or table, if any.
    """
    is_name = isinstance(given, (str, bytes, os.PathLike))
    name = os.path.expanduser(os.fsencode(given)) if is_name else b""
    columns: dict[str, Any] = {"path_column": path_column, "label_column": label_column}
    if is_name and os.path.isdir(name):
        classes = class_names if labels is None else None
        folder = list_folder(name, classes, follow_links=follow_links)
        table = ImageTable(folder.paths, folder.labels, Origin())
        class_names = folder.class_names if labels is None else class_names
    elif is_name:
        table = read_table(_existing_list(name), **columns)
    else:
        table = take_table(given, **columns) or ImageTable(given, None, Origin())
    paths = encode(table.paths, table.origin)
    if not paths:
        raise UsageError(
            f"no image in {os.fsdecode(name) or table.origin.source or 'the list of paths'}",
            hint=f"files are recognized by their extensions: {b' '.join(EXTENSIONS).decode()}",
        )
    labels = table.labels if labels is None else labels
    if labels is None or not with_labels:
        return ImageList(paths, None)
    where = partial(table.origin.named, paths=paths)
    return ImageList(paths, make_labels(labels, len(paths), class_names, where))


def _existing_list(name: bytes) -> str:
    """The name of a file, which must exist and have a format that lists images."""
    text = os.fsdecode(name)
    if not os.path.exists(name):
        kind = "file" if text.lower().endswith(TABLE_EXTENSIONS) else "file or folder"
        raise UsageError(
            f"there is no {kind} {text}", hint=f"ls {os.path.dirname(text.rstrip('/')) or '.'}"
        )
    if not text.lower().endswith(TABLE_EXTENSIONS):
        raise UsageError(
            f"{text} is neither a folder nor a list ({', '.join(TABLE_EXTENSIONS)})",
            hint=f"for a single image: [{text!r}]",
        )
    return text


def encode(paths: Iterable[Any], origin: Origin) -> list[bytes]:
    """File names as bytes in any encoding; a UsageError names an entry that is not a file name."""
    if not isinstance(paths, Iterable):
        raise UsageError(
            f"paths={paths!r} is not a folder, a list of files, or a file with such a list",
            hint='stream("photos", size=(224, 224))',
        )
    encoded = []
    for place, path in enumerate(paths):
        if not isinstance(path, (str, bytes, os.PathLike)) or not os.fspath(path):
            raise UsageError(
                f"expected a file name, got {path!r}: {origin.named([place])}",
                hint="leave entries without a name out",
            )
        encoded.append(os.fsencode(path))
    return encoded


def check_files(paths: Sequence[bytes]) -> None:
    """Raise an ImageError that names missing files, empty files, and folders.

    One ``stat`` per file can save a training run that would otherwise end at the first bad file.
    """
    bad = [(path, why) for path in paths if (why := what_is_wrong(path)) is not None]
    if not bad:
        return
    named = "\n".join(f"  {os.fsdecode(path)}: {why}" for path, why in bad[:_NAMED])
    more = f"\n  and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    raise ImageError(
        f"{len(bad)} of {len(paths)} files cannot be read as images:\n{named}{more}",
        hint=SKIP_HINT,
        path=os.fsdecode(bad[0][0]),
    )


def what_is_wrong(path: bytes) -> str | None:
    """Why a file cannot be read, as far as the file system shows."""
    if b"://" in path:
        return None  # gs:// and the like, which TensorFlow reads
    try:
        size_bytes = os.path.getsize(path)
        if os.path.isdir(path):
            return "is a folder"
    except FileNotFoundError:
        return "is a broken link" if os.path.islink(path) else "is missing"
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"
    return None if size_bytes else "is empty (0 bytes)"


def split(images: ImageList, share: float, seed: int) -> tuple[ImageList, ImageList]:
    """Training and validation images, drawn with ``seed``, so that two calls agree."""
    places = list(range(len(images.paths)))
    random.Random(seed).shuffle(places)
    count = round(share * len(places))
    if not 0 < count < len(places):
        raise UsageError(
            f"validation_split={share} of {len(places)} images leaves one side empty",
            hint="pass two lists of paths",
        )
    return images.take(sorted(places[count:])), images.take(sorted(places[:count]))
