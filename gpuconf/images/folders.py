"""A folder of images: class folders and the files under them, in alphabetical order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuconf.basics.terminal import say
from gpuconf.errors import UsageError

# A listing uses names only; a file's content is checked when it is read.
EXTENSIONS = (b".jpg", b".jpeg", b".jpe", b".jfif", b".png", b".gif", b".bmp", b".webp")


class Folder(NamedTuple):
    """The contents of a folder; labels and names are None without class folders."""

    paths: list[bytes]
    labels: list[int] | None
    class_names: tuple[str, ...] | None


def list_folder(
    folder: bytes, class_names: Sequence[str] | None = None, *, follow_links: bool = False
) -> Folder:
    """List the images under ``folder``; a class's label is its index in the sorted names.

    Hidden files and folders are skipped (``.ipynb_checkpoints`` is not a class).  Other files, and
    images next to class folders, are skipped with a message.
    """
    beside, found = _entries(folder, follow_links)
    classes = _choose(folder, found, class_names)
    left_out: Counter[str] = Counter()
    if not classes:
        kept = _keep_images(beside, left_out)
        _report(folder, left_out, beside=0)
        return Folder(kept, None, None)
    paths: list[bytes] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        files = _files_below(os.path.join(folder, os.fsencode(name)), follow_links)
        kept = _keep_images(files, left_out)
        if not kept:
            say(f"images: the class folder {name!r} of {os.fsdecode(folder)} contains no images")
        paths += kept
        labels += [label] * len(kept)
    _report(folder, left_out, beside=sum(map(_is_image, beside)))
    return Folder(paths, labels, tuple(classes))


def _entries(folder: bytes, follow_links: bool) -> tuple[list[bytes], list[str]]:
    """The folder's files, and the names of its subfolders, sorted; hidden ones are skipped."""
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(b"."):
                continue
            if entry.is_dir():
                if follow_links or not entry.is_symlink():
                    folders.append(os.fsdecode(entry.name))
            else:
                files.append(entry.path)
    return sorted(files), sorted(folders)


def _choose(folder: bytes, found: list[str], wanted: Sequence[str] | None) -> list[str]:
    """The class names in the requested order; each must be a folder."""
    if wanted is None:
        return found
    missing = sorted(set(wanted) - set(found))
    if missing or len(set(wanted)) != len(wanted):
        raise UsageError(
            f"class_names={list(wanted)!r} does not match the folders in {os.fsdecode(folder)}: "
            f"{', '.join(found) or 'none'}",
            hint=f"class_names={found!r}",
        )
    return list(wanted)


def _files_below(folder: bytes, follow_links: bool) -> Iterator[bytes]:
    """Every file that is not hidden, at any depth, folder by folder in alphabetical order."""
    for place, folders, files in os.walk(folder, followlinks=follow_links):
        folders[:] = sorted(name for name in folders if not name.startswith(b"."))
        for name in sorted(files):
            if not name.startswith(b"."):
                yield os.path.join(place, name)


def _is_image(path: bytes) -> bool:
    return path.lower().endswith(EXTENSIONS)


def _keep_images(files: Iterable[bytes], left_out: Counter[str]) -> list[bytes]:
    """The images among the files; the others are counted in ``left_out`` by their extension."""
    kept = []
    for file in files:
        if _is_image(file):
            kept.append(file)
        else:
            extension = os.path.splitext(os.fsdecode(file))[1].lower()
            left_out[extension or "without extension"] += 1
    return kept


def _report(folder: bytes, left_out: Counter[str], *, beside: int) -> None:
    """Report the skipped files: never skip a file silently."""
    name = os.fsdecode(folder)
    if left_out:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(left_out.items()))
        say(f"images: left out {left_out.total()} files of {name} that are not images: {kinds}")
    if beside:
        say(f"images: left out {beside} images of {name} next to its class folders")
